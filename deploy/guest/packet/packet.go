// Package packet makes packets of IP, for the test guest and what it is told to send.
package packet

import (
	"encoding/binary"
	"net"
)

// udp is UDP's number in a packet of IP.
const udp = 17

// Datagram is an IP packet with a datagram of UDP, which may have no checksum of its own.
func Datagram(from, to net.IP, fromPort, toPort uint16, data []byte) []byte {
	b := make([]byte, 28, 28+len(data))
	b[0], b[8], b[9] = 0x45, 64, udp
	binary.BigEndian.PutUint16(b[2:], uint16(28+len(data)))
	copy(b[12:], from.To4())
	copy(b[16:], to.To4())
	binary.BigEndian.PutUint16(b[10:], Checksum(b[:20]))
	binary.BigEndian.PutUint16(b[20:], fromPort)
	binary.BigEndian.PutUint16(b[22:], toPort)
	binary.BigEndian.PutUint16(b[24:], uint16(8+len(data)))
	return append(b, data...)
}

// Checksum is the one of IP and ICMP, of an even number of bytes.
func Checksum(b []byte) uint16 {
	sum := uint32(0)
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
