package main

import (
	"encoding/binary"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	eventSize  = 24 // struct input_event on 64 bits: a time of 16 bytes, type, code, value
	eventKey   = 1  // EV_KEY
	keyPower   = 116
	keyPressed = 1
)

// watchPowerButton powers the guest off when ACPI reports the button.
func watchPowerButton(c *console) {
	devices, _ := filepath.Glob("/dev/input/event*")
	for _, d := range devices {
		f, err := os.Open(d)
		if err != nil {
			continue
		}
		go func() {
			defer f.Close()
			e := make([]byte, eventSize)
			for {
				if _, err := io.ReadFull(f, e); err != nil {
					return
				}
				kind, code, value := binary.LittleEndian.Uint16(e[16:]), binary.LittleEndian.Uint16(e[18:]), binary.LittleEndian.Uint32(e[20:])
				if kind == eventKey && code == keyPower && value == keyPressed {
					c.say("powerbutton")
					powerOff(c)
				}
			}
		}()
	}
}

func powerOff(c *console) {
	c.say("poweroff")
	unix.Unmount(rootDir, 0)
	unix.Sync()
	unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}
