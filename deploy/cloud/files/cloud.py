"""What the start-up of every service needs to know of its cloud."""
import os
import time

DIR = os.environ['STRONGROOM_CLOUD']
ETC = DIR + '/etc'


def wait_for(what):
    """Returns once the databases, or ceph, are there; importing code goes on meanwhile."""
    for _ in range(1200):
        if os.path.exists(DIR + '/run/' + what):
            return
        time.sleep(0.05)
    raise SystemExit(what + ' did not come up within a minute')
