// An upstream that is a real server: node's own http, https or http2 (with
// HTTP/1.1 beside it).
//
//   node upstream_node.js plain|http1|http2 CERT KEY
//
// Prints its port, and ends when its stdin closes.  Each answer has X-Conn,
// the number of the connection that its request came on.
//
//   /echo           the body, as it comes
//   /big?n=         n bytes that tell their place
//   /sse?id=        an event; a second one and the end after /release?id=
//   /release?id=
//   /trailers       chunks, and trailers behind them
//   /early          100, 102, 103, then the answer
//   /status/NNN

'use strict';

const fs = require('fs');

const [mode, cert, key] = process.argv.slice(2);
const waiting = new Map();
let connections = 0;

function big(n) {
    const lines = [];
    for (let at = 0; at < n; at += 16) {
        lines.push(String(at).padStart(15, '0') + '\n');
    }
    return lines.join('').slice(0, n);
}

function answer(req, res) {
    const url = new URL(req.url, 'http://x');
    const session = req.stream ? req.stream.session : null;
    const socket = session ? session.socket : req.socket;
    const id = url.searchParams.get('id');

    res.setHeader('X-Conn', String(socket.number));
    if (!session) {
        res.setHeader('Keep-Alive', 'timeout=61');
    }

    res.setHeader('X-Seen', `${req.method} ${req.url} ${req.httpVersion}`);

    if (url.pathname === '/echo') {
        res.setHeader('Content-Type', 'application/octet-stream');
        req.pipe(res);
        return;
    }

    req.resume();

    if (url.pathname === '/big') {
        res.setHeader('Content-Length', url.searchParams.get('n'));
        res.end(big(Number(url.searchParams.get('n'))));

    } else if (url.pathname === '/sse') {
        res.setHeader('Content-Type', 'text/event-stream');
        res.write('data: one\n\n');
        waiting.set(id, () => res.end('data: two\n\n'));

    } else if (url.pathname === '/release') {
        const go = waiting.get(id);
        waiting.delete(id);
        if (go) {
            go();
        }
        res.end(go ? 'released' : 'nobody');

    } else if (url.pathname === '/trailers') {
        res.setHeader('Trailer', 'X-Sum');
        res.write('first, ');
        setImmediate(() => {
            res.write('second');
            res.addTrailers({ 'X-Sum': '42' });
            res.end();
        });

    } else if (url.pathname === '/early') {
        res.writeContinue();
        if (!session) {
            res.writeProcessing();
        }
        res.writeEarlyHints({ link: '</style.css>; rel=preload' });
        res.end('late');

    } else if (url.pathname.startsWith('/status/')) {
        res.statusCode = Number(url.pathname.slice(8));
        res.end(res.statusCode === 204 || res.statusCode === 304
                ? undefined : 'body');

    } else {
        res.end('hello');
    }
}

const options = mode === 'plain' ? {} : {
    cert: fs.readFileSync(cert), key: fs.readFileSync(key), allowHTTP1: true,
};
const server = mode === 'plain' ? require('http').createServer(answer)
    : mode === 'http1' ? require('https').createServer(options, answer)
    : require('http2').createSecureServer(options, answer);

server.on(mode === 'plain' ? 'connection' : 'secureConnection', (socket) => {
    socket.number = ++connections;
});
server.keepAliveTimeout = 60000;
server.listen(0, '127.0.0.1', () => console.log(server.address().port));

process.stdin.resume();
process.stdin.on('close', () => process.exit(0));
process.stdin.on('end', () => process.exit(0));
