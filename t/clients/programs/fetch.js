// One request by one of Node's clients: fetch.js CLIENT URL.

const [client, url] = process.argv.slice(2);

const clients = {
    async fetch() {
        const answer = await fetch(url);
        if (!answer.ok) throw new Error(answer.status);
        return answer.text();
    },

    https() {
        return new Promise((resolve, reject) => {
            require('https').get(url, (answer) => {
                let text = '';
                answer.on('data', (data) => { text += data; });
                answer.on('end', () => answer.statusCode === 200
                    ? resolve(text) : reject(new Error(answer.statusCode)));
            }).on('error', reject);
        });
    },

    async undici() {
        const undici = require(process.env.UNDICI);
        undici.setGlobalDispatcher(new undici.EnvHttpProxyAgent());
        const answer = await undici.request(url);
        if (answer.statusCode !== 200) throw new Error(answer.statusCode);
        return answer.body.text();
    },
};

clients[client]().then(console.log, (e) => {
    console.error(e, e.cause);
    process.exit(1);
});
