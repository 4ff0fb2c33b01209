package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// obey runs the commands that come in, until the line closes:
//
//	ping WORD...        pong WORD...
//	write FILE TEXT...  put the text into a file or at the start of a device, and sync it
//	cat FILE            show at most its first 4096 bytes, up to the first NUL
//	part FILE OFFSET    show 128 of its bytes, after their CRC-32
//	fill FILE MIB       write random MiB, and sync them
//	zero FILE MIB       write MiB of zeros, and sync them
//	read FILE           read all of it
//	tpm, net            report again (tpm counts up)
//	efi                 tell whether the firmware is UEFI, with Secure Boot
//	efiset NAME TEXT    keep a word in a variable of the UEFI; none removes it
//	efiget NAME         show it
//	pcr NUMBER          show a register of a TPM 2.0
//	dhcp                ask for addresses again
//	icmp ADDRESS        ask another guest for an echo by ICMP
//	dial ADDRESS        fetch the greeting of another guest by TCP, port 80
//	call ADDRESS        the same by a connection that stays
//	say WORD            send a word over it, and show what comes back: the word
//	fetch URL           show what a web server says, in one line
//	datagram ADDRESS TEXT...  send a text by UDP, port 7777: the other says "heard"
//	spoof FROM TO TEXT...  the same with another sender
//	frame INTERFACE HEX  send a frame of Ethernet as it is
//	link FILE           show where a symbolic link leads to
//	config              mount the config drive at /config
//	share TAG [OPTIONS] mount the share of the tag at /share, as a line of fstab would: ro, or for writing
//	shares              mount each share that the config drive tells of at /shares/TAG
//	reboot, poweroff
//
// A FILE without a leading slash is on the root disk.
func obey(c *console) {
	lines := bufio.NewScanner(c)
	var kept call
	for lines.Scan() {
		word := strings.Fields(lines.Text())
		if len(word) == 0 {
			continue
		}
		arg := func(i int) string {
			if i < len(word) {
				return word[i]
			}
			return ""
		}
		switch word[0] {
		case "ping":
			c.say("pong %s", strings.Join(word[1:], " "))
		case "write":
			text := strings.Join(word[min(2, len(word)):], " ")
			c.say("write file=%s err=%v", arg(1), writeSynced(onRoot(arg(1)), strings.NewReader(text)))
		case "cat":
			b, err := head(onRoot(arg(1)))
			c.say("cat %q err=%v", b, err)
		case "part":
			b, err := part(onRoot(arg(1)), arg(2))
			c.say("part %08x %q err=%v", crc32.ChecksumIEEE(b), b, err)
		case "fill":
			mib, err := strconv.ParseInt(arg(2), 10, 32)
			if err == nil {
				err = writeSynced(onRoot(arg(1)), io.LimitReader(rand.Reader, mib<<20))
			}
			c.say("fill file=%s err=%v", arg(1), err)
		case "zero":
			mib, err := strconv.Atoi(arg(2))
			if err == nil {
				err = writeZeros(onRoot(arg(1)), mib)
			}
			c.say("zero file=%s err=%v", arg(1), err)
		case "read":
			n, err := readAll(onRoot(arg(1)))
			c.say("read bytes=%d err=%v", n, err)
		case "tpm":
			reportTPM(c)
		case "net":
			reportNetwork(c)
		case "efi":
			reportEFI(c)
		case "efiset":
			c.say("efiset name=%s err=%v", arg(1), setEFI(arg(1), arg(2)))
		case "efiget":
			text, err := getEFI(arg(1))
			c.say("efiget %q err=%v", text, err)
		case "pcr":
			reportPCR(c, arg(1))
		case "dhcp":
			getAddresses(c)
		case "icmp":
			c.say("icmp err=%v", echo(arg(1)))
		case "dial":
			said, err := dial(arg(1))
			c.say("dial %q err=%v", said, err)
		case "call":
			said, err := kept.begin(arg(1))
			c.say("call %q err=%v", said, err)
		case "say":
			said, err := kept.says(arg(1))
			c.say("say %q err=%v", said, err)
		case "fetch":
			said, err := fetch(arg(1))
			c.say("fetch %q err=%v", said, err)
		case "datagram":
			c.say("datagram err=%v", sendDatagram(arg(1), strings.Join(word[min(2, len(word)):], " ")))
		case "frame":
			c.say("frame err=%v", sendFrame(arg(1), arg(2)))
		case "spoof":
			c.say("spoof err=%v", spoofDatagram(arg(1), arg(2), strings.Join(word[min(3, len(word)):], " ")))
		case "link":
			to, err := os.Readlink(onRoot(arg(1)))
			c.say("link %q err=%v", to, err)
		case "config":
			c.say("config err=%v", mountConfigDrive())
		case "share":
			c.say("share err=%v", mountShare(arg(1), shareDir, arg(2)))
		case "shares":
			tags, err := mountShares()
			c.say("shares tags=%v err=%v", tags, err)
		case "reboot":
			unix.Sync()
			unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
		case "poweroff":
			powerOff(c)
		default:
			c.say("unknown command=%q", word[0])
		}
	}
}

func onRoot(file string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(rootDir, file)
}

func writeSynced(file string, from io.Reader) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Sync(), f.Close())
}

func writeZeros(file string, mib int) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	block := make([]byte, 1<<20)
	for range mib {
		_, more := f.Write(block)
		err = errors.Join(err, more)
	}
	return errors.Join(err, f.Sync(), f.Close())
}

func readAll(file string) (n int64, err error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	block := make([]byte, 1<<20)
	for {
		got, err := f.Read(block)
		n += int64(got)
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

func head(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 4096))
	text, _, _ := bytes.Cut(b, []byte{0})
	return text, err
}

func part(file, offset string) ([]byte, error) {
	at, err := strconv.Atoi(offset)
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(file)
	b = b[min(at, len(b)):]
	return b[:min(128, len(b))], err
}

func reportNetwork(c *console) {
	interfaces, err := net.Interfaces()
	var names []string
	for _, i := range interfaces {
		names = append(names, fmt.Sprintf("%s/%s", i.Name, i.HardwareAddr))
	}
	c.say("net=%v err=%v", names, err)
}
