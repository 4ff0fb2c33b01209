package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/go-tpm/tpm2/transport"
	"golang.org/x/sys/unix"
)

// efiVars is where the variables of the UEFI show as files: four bytes of attributes, then the value.
const efiVars = "/sys/firmware/efi/efivars"

const (
	globalGUID = "8be4df61-93ca-11d2-aa0d-00e098032b8c" // of the specification's own variables
	ownGUID    = "5d3f6b0e-7f4f-4a55-9f0e-6d5a1b1f0c42" // of those that this guest makes
)

// persistent are the attributes of a variable that is kept, and is there at boot and after.
var persistent = []byte{7, 0, 0, 0}

func mountEFI() error {
	if _, err := os.Stat(efiVars); err != nil {
		return errors.New("no UEFI")
	}
	if entries, _ := os.ReadDir(efiVars); len(entries) > 0 {
		return nil
	}
	return unix.Mount("efivarfs", efiVars, "efivarfs", 0, "")
}

// reportEFI tells whether the firmware is UEFI, and whether it started what is signed alone.
func reportEFI(c *console) {
	if err := mountEFI(); err != nil {
		c.say("efi none err=%v", err)
		return
	}
	secure, err := efiVariable("SecureBoot-" + globalGUID)
	setup, more := efiVariable("SetupMode-" + globalGUID)
	c.say("efi secureboot=%x setupmode=%x err=%v", secure, setup, errors.Join(err, more))
}

func efiVariable(name string) ([]byte, error) {
	b, err := os.ReadFile(filepath.Join(efiVars, name))
	if err == nil && len(b) < len(persistent) {
		err = fmt.Errorf("%s is %d bytes long", name, len(b))
	}
	if err != nil {
		return nil, err
	}
	return b[len(persistent):], nil
}

// setEFI keeps a text in a variable of the UEFI. An empty one removes it.
func setEFI(name, text string) error {
	if err := mountEFI(); err != nil {
		return err
	}
	path := filepath.Join(efiVars, name+"-"+ownGUID)
	if f, err := os.Open(path); err == nil { // the kernel keeps variables that there are from being written to
		_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0)
		f.Close()
	}
	if text == "" {
		return os.Remove(path)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(bytes.Clone(persistent), text...)) // at once: it is one call of the firmware
	return errors.Join(err, f.Close())
}

func getEFI(name string) (string, error) {
	if err := mountEFI(); err != nil {
		return "", err
	}
	b, err := efiVariable(name + "-" + ownGUID)
	return string(b), err
}

// reportPCR tells a register of a TPM 2.0.
func reportPCR(c *console, number string) {
	n, err := strconv.ParseUint(strings.TrimSpace(number), 10, 5)
	if err != nil {
		c.say("pcr err=%v", err)
		return
	}
	dev, err := os.OpenFile("/dev/tpm0", os.O_RDWR, 0)
	if err != nil {
		c.say("pcr%d= err=%v", n, err)
		return
	}
	defer dev.Close()
	pcr, err := readPCR(transport.FromReadWriter(dev), uint(n))
	c.say("pcr%d=%x err=%v", n, pcr, err)
}
