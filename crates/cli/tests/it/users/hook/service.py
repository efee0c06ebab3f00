"""A service that knows users. It answers as answer.json says at that moment, and keeps what it is
asked in asked.jsonl. With a certificate it speaks TLS."""

import http.server
import json
import ssl
import sys
import time


class Service(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with open("asked.jsonl", "a") as asked:
            secret = self.headers.get("Authorization")
            line = {"path": self.path, "secret": secret, "body": json.loads(body)}
            asked.write(json.dumps(line) + "\n")
        with open("answer.json") as file:
            answer = json.load(file)
        # What is said of a certain password alone.
        of_password = answer.get("of", {}).get(json.loads(body)["password"])
        if of_password is not None:
            answer["body"] = of_password
        time.sleep(answer.get("delay_s", 0))
        self.send_response(answer.get("code", 200))
        for name, value in answer.get("headers", {}).items():
            self.send_header(name, value)
        text = answer.get("text", json.dumps(answer.get("body")) + " " * answer.get("blanks", 0))
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service)
scheme = "http"
if len(sys.argv) > 1:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1], sys.argv[2])
    server.socket = context.wrap_socket(server.socket, server_side=True)
    scheme = "https"
print(f"{scheme}://127.0.0.1:{server.server_port}/who", flush=True)
server.serve_forever()
