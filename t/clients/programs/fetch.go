// One request by Go's own client: fetch URL.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	answer, err := http.Get(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	body, _ := io.ReadAll(answer.Body)
	fmt.Println(string(body))
	if answer.StatusCode != 200 {
		os.Exit(1)
	}
}
