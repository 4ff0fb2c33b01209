# Runs commands of the OpenStack clients, each in a process of its own that begins
# where the clients' modules and their plugins' are loaded: loading them takes most of a
# command's time.
# A connection to the socket argv[1] is one command. Ends with its standard input, and
# removes the folder of the socket.
import gc
import importlib.metadata
import json
import os
import select
import shutil
import signal
import socket
import sys
import tempfile

socket_path = sys.argv[1]
sys.argv = ["openstack"]  # its modules look at their name as they are loaded
from cinderclient.shell import main as cinder
from openstackclient.shell import main as openstack

plugins = importlib.metadata.entry_points()
for group in plugins.groups:
    if group.startswith(("openstack.", "keystoneauth1.")):
        for plugin in plugins.select(group=group):
            try:
                plugin.load()
            except Exception:  # of a service whose client is not installed; whoever asks for it is told
                pass
gc.freeze()  # what is loaded stays: no process has to look at it, and so copy it

programs = {"cinder": cinder, "openstack": openstack}


def run(command, out, err):
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    os.environ.clear()
    os.environ.update(command["environment"])
    sys.argv = [command["program"]] + command["arguments"]
    sys.exit(programs[command["program"]]())


def answer(connection):
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    stream = connection.makefile("rw", encoding="utf-8")
    command = json.loads(stream.readline())
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        pid = os.fork()
        if pid == 0:
            run(command, out, err)
        _, status = os.waitpid(pid, 0)
        said = {"code": os.waitstatus_to_exitcode(status)}
        for name, file in (("out", out), ("err", err)):
            file.seek(0)
            said[name] = file.read().decode("utf-8")
        json.dump(said, stream)
        stream.flush()


signal.signal(signal.SIGCHLD, signal.SIG_IGN)
listener = socket.socket(socket.AF_UNIX)
listener.bind(socket_path)
listener.listen(64)
print("ready", flush=True)
while True:
    ready, _, _ = select.select([listener, sys.stdin], [], [])
    if sys.stdin in ready:
        shutil.rmtree(os.path.dirname(socket_path))
        break
    connection, _ = listener.accept()
    if os.fork() == 0:
        listener.close()
        answer(connection)
        os._exit(0)
    connection.close()
