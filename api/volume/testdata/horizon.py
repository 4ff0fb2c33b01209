# Serves Debian's Horizon with the settings of one test: horizon.py PORT. Its own settings
# come first on the path, as the package "local".
import mimetypes
import os
import posixpath
import socketserver
import sys
from wsgiref import simple_server

os.environ["DJANGO_SETTINGS_MODULE"] = "openstack_dashboard.settings"
from django.core.wsgi import get_wsgi_application

dashboard = get_wsgi_application()
static = "/var/lib/openstack-dashboard/static"


def application(environ, start_response):
    path = environ["PATH_INFO"]
    if not path.startswith("/static/"):
        return dashboard(environ, start_response)
    try:
        with open(static + posixpath.normpath(path[len("/static"):]), "rb") as file:
            content = file.read()
    except OSError:
        start_response("404 Not Found", [])
        return []
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    start_response("200 OK", [("Content-Type", kind), ("Content-Length", str(len(content)))])
    return [content]


class Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True


with simple_server.make_server("127.0.0.1", int(sys.argv[1]), application, Server) as server:
    server.serve_forever()
