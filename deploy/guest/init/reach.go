package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	greetingPort = 80   // TCP: who comes there is greeted
	datagramPort = 7777 // UDP: what comes there is told on the console
)

// beReachable answers what others send.
func beReachable(c *console) {
	if err := setUp("lo"); err != nil {
		c.say("lo err=%v", err)
	}
	go greet(c)
	go hear(c)
}

func greet(c *console) {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{Port: greetingPort})
	if err != nil {
		c.say("greet err=%v", err)
		return
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		fmt.Fprintf(conn, "hello from %v to %v\n", conn.LocalAddr(), conn.RemoteAddr())
		conn.Close()
	}
}

func hear(c *console) {
	l, err := net.ListenUDP("udp4", &net.UDPAddr{Port: datagramPort})
	if err != nil {
		c.say("hear err=%v", err)
		return
	}
	b := make([]byte, 512)
	for {
		n, from, err := l.ReadFromUDP(b)
		if err != nil {
			return
		}
		c.say("heard from=%v %q", from.IP, b[:n])
	}
}

// dial fetches the greeting of another guest.
func dial(address string) (string, error) {
	conn, err := net.DialTimeout("tcp4", net.JoinHostPort(address, fmt.Sprint(greetingPort)), 5*time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	line, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(line), err
}

// sendDatagram sends a text to another guest.
func sendDatagram(to, text string) error {
	conn, err := net.DialTimeout("udp4", net.JoinHostPort(to, fmt.Sprint(datagramPort)), 5*time.Second)
	if err != nil {
		return err
	}
	_, err = conn.Write([]byte(text))
	return errors.Join(err, conn.Close())
}

// spoofDatagram is sendDatagram with any sender.
func spoofDatagram(from, to, text string) error {
	source, target := net.ParseIP(from).To4(), net.ParseIP(to).To4()
	if source == nil || target == nil {
		return errors.New("no address")
	}
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	b := make([]byte, 28, 28+len(text)) // the headers of IP and UDP; the kernel adds IP's checksum, and UDP may have none
	b[0], b[8], b[9] = 0x45, 64, unix.IPPROTO_UDP
	copy(b[12:], source)
	copy(b[16:], target)
	binary.BigEndian.PutUint16(b[20:], datagramPort)
	binary.BigEndian.PutUint16(b[22:], datagramPort)
	binary.BigEndian.PutUint16(b[24:], uint16(8+len(text)))
	return unix.Sendto(s, append(b, text...), 0, &unix.SockaddrInet4{Addr: [4]byte(target)})
}
