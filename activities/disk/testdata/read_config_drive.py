# Reads the folder of a config drive as cloud-init does, and prints what it finds.
import json
import sys

from cloudinit.sources.helpers import openstack

found = openstack.ConfigDriveReader(sys.argv[1]).read_v2()
network = openstack.convert_net_json(found["networkdata"], known_macs={m: f"eth{i}" for i, m in enumerate(sys.argv[2:])})
meta = found["metadata"]
json.dump({
    "instance_id": meta["instance-id"],
    "hostname": meta["local-hostname"],
    "keys": meta["public_keys"],
    "seed": len(meta["random_seed"]),
    "devices": meta["devices"],
    "user_data": found["userdata"].decode(),
    "vendor_data": found["vendordata"],
    "root": found["ec2-metadata"]["block-device-mapping"]["root"],
    "interfaces": [[c["name"], c["mac_address"], [s["type"] for s in c["subnets"]]] for c in network["config"]],
}, sys.stdout)
