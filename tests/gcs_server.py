"""Google Cloud Storage as far as obstore asks it: a server on loopback that keeps objects by generation.

The emulators that can be had as packages do not know these requests (the XML interface, with a generation as the condition of
a put), so this one speaks them as Google documents them. It shows what Penstock sends and how it reads the answers, not what
Google does.
"""

import hashlib
import itertools
import threading
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "penstock"


class Stored(NamedTuple):
    data: bytes
    generation: int

    @property
    def marks(self):
        tag = hashlib.md5(self.data).hexdigest()  # so the same bytes put again have the same tag, as there
        return {"ETag": f'"{tag}"', "x-goog-generation": str(self.generation)}


class GcsServer(ThreadingHTTPServer):
    """``environment`` is what obstore needs to find it; ``bucket`` is its only bucket."""

    daemon_threads = True
    bucket = f"gs://{BUCKET}"

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Requests)
        self.objects, self.generations, self.lock = {}, itertools.count(1), threading.Lock()
        self.environment = {
            "GOOGLE_BASE_URL": f"http://127.0.0.1:{self.server_address[1]}",
            "GOOGLE_BEARER_TOKEN": "anything",
            "GOOGLE_ALLOW_HTTP": "true",
        }

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class Requests(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: GcsServer

    @property
    def place(self):
        bucket, _, key = unquote(urlsplit(self.path).path).lstrip("/").partition("/")
        return key if bucket == BUCKET else None

    def do_PUT(self):
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        copied = self.headers.get("x-goog-copy-source")
        with self.server.lock:
            objects = self.server.objects
            if copied is not None:
                source = objects.get(unquote(copied).lstrip("/").removeprefix(f"{BUCKET}/"))
                if source is None:
                    return self.answer(404)
                data = source.data
            there, wanted = objects.get(self.place), self.headers.get("x-goog-if-generation-match")
            if self.place is None:
                return self.answer(404)
            if wanted is not None and int(wanted) != (0 if there is None else there.generation):
                return self.answer(412)
            stored = objects[self.place] = Stored(data, next(self.server.generations))
        return self.answer(200, b"", stored.marks)

    def do_GET(self):
        asked = parse_qs(urlsplit(self.path).query)
        if "list-type" in asked:
            return self.answer(200, self.listed(asked.get("prefix", [""])[0], "delimiter" in asked))
        found = self.server.objects.get(self.place)
        if found is None:
            return self.answer(404)
        return self.answer(200, found.data, {**found.marks, "Last-Modified": formatdate(usegmt=True)})

    do_HEAD = do_GET

    def do_DELETE(self):
        return self.answer(404 if self.server.objects.pop(self.place, None) is None else 204)

    def listed(self, prefix, by_folder):
        with self.server.lock:
            found = {k: o for k, o in sorted(self.server.objects.items()) if k.startswith(prefix)}
        if by_folder:
            found = {k: o for k, o in found.items() if "/" not in k.removeprefix(prefix)}
        rows = "".join(
            f"<Contents><Key>{escape(k)}</Key><Size>{len(o.data)}</Size><ETag>{escape(o.marks['ETag'])}</ETag>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for k, o in found.items()
        )
        return f"<ListBucketResult>{rows}</ListBucketResult>".encode()

    def answer(self, status, body=b"", headers=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_):
        pass
