package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"strongroom/deploy/guest/packet"
)

// The options of DHCP that are asked for.
const (
	optionMask      = 1
	optionRouter    = 3
	optionAddress   = 50
	optionType      = 53
	optionServer    = 54
	optionParameter = 55
	optionRoutes    = 121 // RFC 3442: they go before the router
)

// The types of DHCP's messages.
const (
	discover = 1
	offer    = 2
	request  = 3
	ack      = 5
)

// cookie is where the options of a message begin.
var cookie = []byte{99, 130, 83, 99}

// getAddresses asks for the addresses of all interfaces, and tells of each.
func getAddresses(c *console) {
	interfaces, _ := net.Interfaces()
	for _, i := range interfaces {
		if i.Flags&net.FlagLoopback != 0 {
			continue
		}
		ip, router, err := getAddress(i)
		c.say("dhcp if=%s ip=%v router=%v err=%v", i.Name, ip, router, err)
	}
}

// getAddress asks for an interface's address by DHCP, for half a minute, and gives it to it.
func getAddress(i net.Interface) (ip, router net.IP, err error) {
	s, err := openDHCP(i.Name)
	if err != nil {
		return nil, nil, err
	}
	defer unix.Close(s)
	packets, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return nil, nil, err
	}
	defer unix.Close(packets)
	l := lease{socket: s, packets: packets, of: i, id: binary.BigEndian.Uint32(i.HardwareAddr[2:])}
	for range 15 {
		l.send(discover, nil)
		offered, options := l.receive(offer)
		if offered == nil {
			continue
		}
		l.send(request, map[byte][]byte{optionAddress: offered.To4(), optionServer: options[optionServer]})
		if ip, options = l.receive(ack); ip == nil {
			continue
		}
		err = setAddress(i.Name, ip, net.IP(options[optionMask]))
		for _, r := range routesOf(options) {
			err = errors.Join(err, addRoute(i.Name, r))
			if ones, _ := r.to.Mask.Size(); ones == 0 {
				router = r.via
			}
		}
		return ip, router, err
	}
	return nil, nil, errors.New("nobody answers")
}

// openDHCP opens an interface's socket of a client. One without an address can hear broadcasts.
func openDHCP(name string) (int, error) {
	if err := errors.Join(completeChecksums(name), setUp(name)); err != nil {
		return -1, err
	}
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return -1, err
	}
	err = errors.Join(
		unix.SetsockoptInt(s, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
		unix.SetsockoptString(s, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, name), unix.Bind(s, &unix.SockaddrInet4{Port: 68}),
		unix.SetsockoptTimeval(s, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 500000}),
	)
	if err != nil {
		unix.Close(s)
	}
	return s, err
}

// lease is a talk with DHCP servers.
type lease struct {
	socket  int // hears
	packets int // sends
	of      net.Interface
	id      uint32
}

// send sends a message from no address: what an IP socket sends comes from that of another interface, where there is one, and
// whoever guards the network drops it.
func (l lease) send(kind byte, options map[byte][]byte) {
	b := make([]byte, 236, 400)
	b[0], b[1], b[2] = 1, 1, 6 // a request, of Ethernet, whose addresses have 6 bytes
	binary.BigEndian.PutUint32(b[4:], l.id)
	b[10] = 0x80 // answer by broadcast: there is no address yet
	copy(b[28:], l.of.HardwareAddr)
	b = append(b, cookie...)
	b = append(b, optionType, 1, kind, optionParameter, 3, optionMask, optionRouter, optionRoutes)
	for option, value := range options {
		b = append(append(b, option, byte(len(value))), value...)
	}
	b = append(b, 255)
	all := unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_IP), Ifindex: l.of.Index, Halen: 6, Addr: [8]byte{255, 255, 255, 255, 255, 255}}
	unix.Sendto(l.packets, packet.Datagram(net.IPv4zero, net.IPv4bcast, 68, 67, b), 0, &all)
}

func networkOrder(n uint16) uint16 { return n<<8 | n>>8 }

// receive waits for a message of a kind, for two seconds; nil: there was none.
func (l lease) receive(kind byte) (net.IP, map[byte][]byte) {
	b := make([]byte, 1600)
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		n, _, err := unix.Recvfrom(l.socket, b, 0)
		if err != nil || n < 240 || b[0] != 2 || binary.BigEndian.Uint32(b[4:]) != l.id || !bytes.Equal(b[28:34], l.of.HardwareAddr) || !bytes.Equal(b[236:240], cookie) {
			continue
		}
		options := optionsOf(b[240:n])
		if bytes.Equal(options[optionType], []byte{kind}) {
			return net.IP(bytes.Clone(b[16:20])), options
		}
	}
	return nil, nil
}

func optionsOf(b []byte) map[byte][]byte {
	out := map[byte][]byte{}
	for len(b) > 1 && b[0] != 255 {
		if b[0] == 0 {
			b = b[1:]
			continue
		}
		end := 2 + int(b[1])
		if len(b) < end {
			break
		}
		out[b[0]] = bytes.Clone(b[2:end])
		b = b[end:]
	}
	return out
}

// way is a route.
type way struct {
	to  net.IPNet
	via net.IP
}

func routesOf(options map[byte][]byte) (all []way) {
	if router := options[optionRouter]; len(router) >= 4 && len(options[optionRoutes]) == 0 {
		return []way{{net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}, router[:4]}}
	}
	for b := options[optionRoutes]; len(b) > 0; {
		ones := int(b[0])
		end := 1 + (ones+7)/8
		if ones > 32 || len(b) < end+4 {
			break
		}
		to := make(net.IP, 4)
		copy(to, b[1:end])
		all = append(all, way{net.IPNet{IP: to, Mask: net.CIDRMask(ones, 32)}, b[end : end+4]})
		b = b[end+4:]
	}
	return all
}

// ioctl asks the kernel about an interface.
func ioctl(name string, do func(s int, r *unix.Ifreq) error) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	r, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	return do(s, r)
}

func setUp(name string) error {
	return ioctl(name, func(s int, r *unix.Ifreq) error {
		r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
		return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, r)
	})
}

// completeChecksums has the guest, and not its host, make the checksums of what it sends: an Open vSwitch in userspace
// drops packets without them on the way to another host.
func completeChecksums(name string) error {
	off := struct{ command, value uint32 }{unix.ETHTOOL_STXCSUM, 0}
	return ioctl(name, func(s int, r *unix.Ifreq) error {
		var with struct {
			name [unix.IFNAMSIZ]byte
			data unsafe.Pointer
			_    [16]byte
		}
		copy(with.name[:], r.Name())
		with.data = unsafe.Pointer(&off)                                                                      //nolint:gosec // the kernel reads a struct
		_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(s), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&with))) //nolint:gosec // the same
		if e != 0 && e != unix.EOPNOTSUPP {                                                                   // an interface that leaves nothing to its host
			return e
		}
		return nil
	})
}

func setAddress(name string, ip, mask net.IP) error {
	set := func(request uint, to net.IP) error {
		return ioctl(name, func(s int, r *unix.Ifreq) error {
			if err := r.SetInet4Addr(to.To4()); err != nil {
				return err
			}
			return unix.IoctlIfreq(s, request, r)
		})
	}
	return errors.Join(set(unix.SIOCSIFADDR, ip), set(unix.SIOCSIFNETMASK, mask))
}

// rtentry is the kernel's struct of a route.
type rtentry struct {
	_             uint64
	dst, gw, mask [16]byte
	flags         uint16
	_             [30]byte // with the metric
	device        *byte
	_             [24]byte
}

func addRoute(name string, r way) error {
	device := append([]byte(name), 0)
	entry := rtentry{dst: sockaddr(r.to.IP), mask: sockaddr(net.IP(r.to.Mask)), flags: unix.RTF_UP, device: &device[0]}
	if !r.via.IsUnspecified() {
		entry.gw, entry.flags = sockaddr(r.via), unix.RTF_UP|unix.RTF_GATEWAY
	}
	return ioctl(name, func(s int, _ *unix.Ifreq) error {
		_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(s), unix.SIOCADDRT, uintptr(unsafe.Pointer(&entry))) //nolint:gosec // the kernel reads a struct
		if e != 0 && e != unix.EEXIST {
			return e
		}
		return nil
	})
}

func sockaddr(ip net.IP) (b [16]byte) {
	b[0] = unix.AF_INET
	copy(b[4:8], ip.To4())
	return b
}
