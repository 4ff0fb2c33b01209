package main

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"strongroom/deploy/guest/packet"
)

const (
	greetingPort = 80   // TCP: who comes there is greeted, and then hears what he says
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
		go func() {
			defer conn.Close()
			fmt.Fprintf(conn, "hello from %v to %v\n", conn.LocalAddr(), conn.RemoteAddr())
			io.Copy(conn, conn)
		}()
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
	var c call
	said, err := c.begin(address)
	if c.conn != nil {
		c.conn.Close()
	}
	return said, err
}

// call is a connection to another guest that stays.
type call struct {
	conn net.Conn
	in   *bufio.Reader
}

// begin connects anew, and gives the greeting.
func (c *call) begin(address string) (string, error) {
	if c.conn != nil {
		c.conn.Close()
	}
	var err error
	if c.conn, err = net.DialTimeout("tcp4", net.JoinHostPort(address, fmt.Sprint(greetingPort)), 5*time.Second); err != nil {
		c.conn = nil
		return "", err
	}
	c.in = bufio.NewReader(c.conn)
	return c.hears(5 * time.Second)
}

// says sends a word, and gives what comes back.
func (c *call) says(word string) (string, error) {
	if c.conn == nil {
		return "", errors.New("there is no connection")
	}
	if _, err := fmt.Fprintln(c.conn, word); err != nil {
		return "", err
	}
	return c.hears(time.Minute) // TCP sends again what got lost
}

func (c *call) hears(within time.Duration) (string, error) {
	c.conn.SetDeadline(time.Now().Add(within))
	line, err := c.in.ReadString('\n')
	return strings.TrimSpace(line), err
}

// fetch asks a web server by HTTP/1.0: with net/http the guest would be half as large again.
func fetch(url string) (string, error) {
	host, path, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	conn, err := net.DialTimeout("tcp4", net.JoinHostPort(host, "80"), 5*time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintf(conn, "GET /%s HTTP/1.0\r\nHost: %s\r\n\r\n", path, host)
	answer, err := io.ReadAll(conn)
	head, body, _ := strings.Cut(string(answer), "\r\n\r\n")
	if status, _, _ := strings.Cut(head, "\r\n"); err == nil && !strings.Contains(status, " 200 ") {
		err = errors.New(status)
	}
	return body, err
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
	return unix.Sendto(s, packet.Datagram(source, target, datagramPort, datagramPort, []byte(text)), 0, &unix.SockaddrInet4{Addr: [4]byte(target)})
}

// sendFrame sends a frame of Ethernet, in hexadecimal with its header.
func sendFrame(name, text string) error {
	frame, err := hex.DecodeString(text)
	if err != nil {
		return err
	}
	i, err := net.InterfaceByName(name)
	if err != nil {
		return err
	}
	s, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	return unix.Sendto(s, frame, 0, &unix.SockaddrLinklayer{Ifindex: i.Index, Halen: 6})
}

// echo asks another guest for an echo by ICMP, each second for five.
func echo(address string) error {
	to, err := net.ResolveIPAddr("ip4", address)
	if err != nil {
		return err
	}
	conn, err := net.ListenPacket("ip4:icmp", "0.0.0.0")
	if err != nil {
		return err
	}
	defer conn.Close()
	request := []byte{8, 0, 0, 0, 'T', 'G', 0, 0} // and an answer begins with 0
	binary.BigEndian.PutUint16(request[2:], packet.Checksum(request))
	b := make([]byte, 256)
	for range 5 {
		if _, err := conn.WriteTo(request, to); err != nil {
			return err
		}
		conn.SetReadDeadline(time.Now().Add(time.Second))
		for {
			n, from, err := conn.ReadFrom(b)
			if err != nil {
				break
			}
			if n >= len(request) && b[0] == 0 && string(b[4:8]) == string(request[4:8]) && from.String() == to.String() {
				return nil
			}
		}
	}
	return errors.New("no echo")
}
