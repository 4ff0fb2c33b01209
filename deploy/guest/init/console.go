package main

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// console is the serial line. Lines of several goroutines do not mix.
type console struct {
	mu sync.Mutex
	io.ReadWriter
}

// openConsole opens the first serial port without echo, or gives standard
// output when the machine has none.
func openConsole() *console {
	f, err := os.OpenFile("/dev/ttyS0", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return &console{ReadWriter: os.Stdout}
	}
	if t, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err == nil {
		t.Lflag &^= unix.ECHO
		unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, t)
	}
	return &console{ReadWriter: f}
}

func (c *console) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c, "TG "+format+"\r\n", args...)
}
