"""One request by one of Python's clients: fetch.py CLIENT URL."""

import sys

client, url = sys.argv[1:]


def urllib():
    from urllib.request import urlopen
    return urlopen(url).read().decode()


def requests():
    import requests
    answer = requests.get(url)
    answer.raise_for_status()
    return answer.text


def httpx():
    import httpx
    answer = httpx.get(url)
    answer.raise_for_status()
    return answer.text


def streams():
    import asyncio
    from urllib.parse import urlsplit
    u = urlsplit(url)

    async def fetch():
        reader, writer = await asyncio.open_connection(u.hostname, u.port,
                                                       ssl=True)
        writer.write(b"GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n"
                     b"\r\n" % (u.path.encode(), u.netloc.encode()))
        answer = (await reader.read()).decode()
        assert answer.startswith("HTTP/1.1 200 "), answer
        return answer

    return asyncio.run(fetch())


print(globals()[client]())
