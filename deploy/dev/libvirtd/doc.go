// Package libvirtd runs a libvirtd of its own beside whatever the machine has:
// own configuration, state, logs and socket below one folder, in namespaces of
// its own. Development (`strongroom dev`) and the tests on real guests use it;
// a production host runs its distribution's libvirtd.
//
// libvirtd has its paths compiled in, so the folder is bind-mounted over
// /run/libvirt, /var/lib/libvirt, /var/log/libvirt, /var/log/swtpm,
// /var/cache/libvirt and /etc/libvirt inside a mount namespace. Every other
// path is the same inside and outside: disks of servers belong elsewhere, in
// folders that the user libvirt-qemu can pass through (mode 0711).
package libvirtd
