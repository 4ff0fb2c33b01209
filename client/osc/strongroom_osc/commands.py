"""Commands that the openstack client gets: openstack strongroom …"""

import re
import time
import uuid

from keystoneauth1 import exceptions as http
from osc_lib import exceptions
from osc_lib.command import command

# The states in which an operation has ended.
SETTLED = ("succeeded", "failed", "cancelled")

# For how many seconds a wait bears an API that does not answer, as while it is restarted.
PATIENCE = 120


def _server(parser):
    parser.add_argument("server", metavar="<server>", help="Server, by name or ID")


def _wait(parser):
    parser.add_argument("--wait", action="store_true", help="Wait for the end of the operation; one that fails says why")


class _Base:
    """What all commands have."""

    def call(self, method, url, **body):
        """The answer of the API; a refusal is the fault's own message, which keystoneauth does not read."""
        try:
            return self.app.client_manager.strongroom.request(url, method, **body)
        except http.HttpError as refused:
            try:
                fault = next(iter(refused.response.json().values()))["message"]
            except (AttributeError, KeyError, StopIteration, TypeError, ValueError):
                raise refused
            raise exceptions.CommandError("%s (HTTP %d)" % (fault, refused.http_status))

    def find(self, args):
        """The id of a server, by its exact name or its id."""
        try:
            uuid.UUID(args.server)
            return self.call("GET", "/servers/%s" % args.server).json()["server"]["id"]
        except ValueError:
            pass
        listed = self.call("GET", "/servers", params={"name": "^%s$" % re.escape(args.server)}).json()["servers"]
        found = [s["id"] for s in listed if s["name"] == args.server]
        if len(found) != 1:
            raise exceptions.CommandError("There are %d servers named %s" % (len(found), args.server) if found else "There is no server %s" % args.server)
        return found[0]

    def began(self, args, server, answer):
        """The operation that a request began, at its end where that is wanted."""
        operation = answer.headers["x-openstack-request-id"]
        pause, answered = 0.2, time.monotonic()
        while True:
            try:
                got = self.app.client_manager.strongroom.get("/servers/%s/operations/%s" % (server, operation)).json()["operation"]
                answered = time.monotonic()
            except (http.ConnectionError, http.HttpServerError) as away:
                if time.monotonic() > answered + PATIENCE:
                    raise exceptions.CommandError("%s goes on; the API does not answer: %s" % (operation, away))
                time.sleep(2)
                continue
            if not args.wait or got["state"] == "succeeded":
                return got
            if got["state"] in SETTLED:
                raise exceptions.CommandError("%s (%s) %s: %s" % (got["kind"], operation, got["state"], got["message"]))
            time.sleep(pause)
            pause = min(pause * 1.5, 2)


def _shown(operation):
    """An operation as a show prints it."""
    keys = ("id", "kind", "state", "message", "accepted_at", "started_at", "finished_at")
    steps = "\n".join("%s %s" % (e["event"], e["result"] or "under way") for e in operation["events"])
    progress = operation["progress"]
    if progress:
        progress = "%(phase)s %(done)d of %(total)d %(unit)s" % progress
    return keys + ("progress", "steps"), tuple(operation[k] for k in keys) + (progress, steps)


class ListDisks(_Base, command.Lister):
    """List the local disks of a server and how they are encrypted"""

    def get_parser(self, name):
        parser = super().get_parser(name)
        _server(parser)
        return parser

    def take_action(self, args):
        disks = self.call("GET", "/servers/%s/disks" % self.find(args)).json()["disks"]
        keys = ("device_name", "role", "size_mb", "encrypted", "encryption_format", "encryption_secret_uuid")
        return ("Device", "Role", "Size MiB", "Encrypted", "Format", "Secret"), [tuple(d[k] for k in keys) for d in disks]


class ListTPMCertificates(_Base, command.Lister):
    """List the endorsement keys of a server's vTPM, with the certificate of each and those of who signed it"""

    def get_parser(self, name):
        parser = super().get_parser(name)
        _server(parser)
        return parser

    def take_action(self, args):
        has = self.call("GET", "/servers/%s/tpm-certificates" % self.find(args)).json()
        keys = ("key", "nv_index", "certificate")
        return ("Key", "NV index", "Certificate", "Issuers"), [tuple(c[k] for k in keys) + (has["issuers"],) for c in has["tpm_certificates"]]


class RotateKeys(_Base, command.ShowOne):
    """Give encrypted disks of a server new passphrases"""

    def get_parser(self, name):
        parser = super().get_parser(name)
        _server(parser)
        parser.add_argument("--disk", metavar="<role>", action="append", help="Only this disk: root, ephemeral0 or swap; repeatable")
        _wait(parser)
        return parser

    def take_action(self, args):
        server = self.find(args)
        arguments = {"disks": args.disk} if args.disk else None
        answer = self.call("POST", "/servers/%s/action" % server, json={"rotateKeys": arguments})
        return _shown(self.began(args, server, answer))


class CreateImage(_Base, command.ShowOne):
    """Make an image of a server, with a key of its own where that is wanted"""

    def get_parser(self, name):
        parser = super().get_parser(name)
        _server(parser)
        parser.add_argument("name", metavar="<name>", help="Name of the new image")
        parser.add_argument("--key", choices=("same", "new", "existing", "none"), default="same", help="What the image is encrypted with")
        parser.add_argument("--secret", metavar="<id>", help="With --key existing: the secret of the key manager")
        _wait(parser)
        return parser

    def take_action(self, args):
        if (args.key == "existing") != bool(args.secret):
            raise exceptions.CommandError("--secret goes with --key existing, and that with --secret")
        server = self.find(args)
        encryption = {"key": args.key}
        if args.secret:
            encryption["secret_uuid"] = args.secret
        answer = self.call("POST", "/servers/%s/action" % server, json={"createImage": {"name": args.name, "encryption": encryption}})
        operation = self.began(args, server, answer)
        return ("id", "name", "key", "operation", "state"), (answer.json()["image_id"], args.name, args.key, operation["id"], operation["state"])


class ListOperations(_Base, command.Lister):
    """List the operations of a server, the newest first"""

    def get_parser(self, name):
        parser = super().get_parser(name)
        _server(parser)
        return parser

    def take_action(self, args):
        operations = self.call("GET", "/servers/%s/operations" % self.find(args)).json()["operations"]
        keys = ("id", "kind", "state", "accepted_at", "message")
        return ("ID", "Kind", "State", "Accepted At", "Message"), [tuple(o[k] for k in keys) for o in operations]


class _OneOperation(_Base):
    def get_parser(self, name):
        parser = super().get_parser(name)
        _server(parser)
        parser.add_argument("operation", metavar="<operation>", help="ID of the operation: that of the request")
        return parser


class ShowOperation(_OneOperation, command.ShowOne):
    """Show an operation of a server with its steps"""

    def take_action(self, args):
        return _shown(self.call("GET", "/servers/%s/operations/%s" % (self.find(args), args.operation)).json()["operation"])


class CancelOperation(_OneOperation, command.Command):
    """Have an operation undo what it has done"""

    def take_action(self, args):
        self.call("DELETE", "/servers/%s/operations/%s" % (self.find(args), args.operation))


class ListShares(_Base, command.Lister):
    """List the shares of a server"""

    def get_parser(self, name):
        parser = super().get_parser(name)
        _server(parser)
        return parser

    def take_action(self, args):
        shares = self.call("GET", "/servers/%s/shares" % self.find(args)).json()["shares"]
        return ("Share", "Tag", "Status", "Fault"), [(s["shareId"], s["tag"], s["status"], s.get("fault", {}).get("message", "")) for s in shares]


class AddShare(_Base, command.ShowOne):
    """Attach a share to a server, which is stopped, or runs where docs/shares.md says so"""

    def get_parser(self, name):
        parser = super().get_parser(name)
        _server(parser)
        parser.add_argument("share", metavar="<share>", help="ID of the share")
        parser.add_argument("--tag", metavar="<tag>", help="Under which the guest mounts it; the share's ID by default")
        _wait(parser)
        return parser

    def take_action(self, args):
        server = self.find(args)
        share = {"shareId": args.share}
        if args.tag:
            share["tag"] = args.tag
        answer = self.call("POST", "/servers/%s/shares" % server, json={"share": share})
        operation = self.began(args, server, answer)
        return ("share", "tag", "operation", "state"), (args.share, answer.json()["share"]["tag"], operation["id"], operation["state"])


class RemoveShare(_Base, command.ShowOne):
    """Detach a share from a server, which is stopped, or runs where docs/shares.md says so"""

    def get_parser(self, name):
        parser = super().get_parser(name)
        _server(parser)
        parser.add_argument("share", metavar="<share>", help="ID of the share")
        _wait(parser)
        return parser

    def take_action(self, args):
        server = self.find(args)
        return _shown(self.began(args, server, self.call("DELETE", "/servers/%s/shares/%s" % (server, args.share))))
