"""What the start-up of every service needs to know of its cloud."""
import os
import time

DIR = os.environ['STRONGROOM_CLOUD']
ETC = DIR + '/etc'


def wait_for_databases():
    """Returns once the databases are made; importing the code goes on meanwhile."""
    for _ in range(1200):
        if os.path.exists(DIR + '/run/databases'):
            return
        time.sleep(0.05)
    raise SystemExit('the databases were not made within a minute')
