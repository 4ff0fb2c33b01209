package main

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	tpm1 "github.com/google/go-tpm/tpm"
	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport"
	"golang.org/x/sys/unix"
)

// reportTPM tells the TPM's version and PCR 0, and what shows that the state was kept: in a TPM 2.0 it counts up a
// counter in non-volatile memory, of a TPM 1.2 it tells the endorsement key, which was made with the state.
func reportTPM(c *console) {
	name, told := findTPM()
	if name == "" {
		if told {
			sayWhyNot(c)
		}
		c.say("tpm none")
		return
	}
	major, err := os.ReadFile(filepath.Join(tpmClass, name, "tpm_version_major"))
	if err != nil {
		c.say("tpm err=%v", err)
		return
	}
	dev, err := os.OpenFile("/dev/"+name, os.O_RDWR, 0)
	if err != nil {
		c.say("tpm err=%v", err)
		return
	}
	defer dev.Close()
	if strings.TrimSpace(string(major)) == "1" {
		pcr, err := tpm1.ReadPCR(dev, 0)
		c.say("tpm version=1.2 interface=%s pcr0=%x err=%v", tpmInterface(name), pcr, err)
		key, err := tpm1.ReadPubEK(dev)
		c.say("tpm ek=%x err=%v", sha256.Sum256(key), err)
		return
	}
	t := transport.FromReadWriter(dev)
	pcr, err := readPCR(t, 0)
	c.say("tpm version=2.0 interface=%s pcr0=%x err=%v", tpmInterface(name), pcr, err)
	for _, index := range []tpm2.TPMHandle{0x01c00002, 0x01c00016} {
		if data, err := readArea(t, index); err != nil {
			c.say("tpm certificate=0x%08x err=%v", index, err)
		} else {
			c.say("tpm certificate=0x%08x sha256=%x err=<nil>", index, sha256.Sum256(data))
		}
	}
	n, err := countUp(t)
	c.say("tpm nvcount=%d err=%v", n, err)
}

const tpmClass = "/sys/class/tpm"

// findTPM gives the name of the first TPM that a driver has, or "", and whether the firmware tells of one. A kernel asks a TPM once,
// and does without it when the answer does not come in time, as on a busy host: what the firmware tells of, the kernel is told
// to ask again, for a minute.
func findTPM() (name string, told bool) {
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Second) {
		if found, _ := filepath.Glob(tpmClass + "/tpm[0-9]*"); len(found) > 0 {
			return filepath.Base(found[0]), true
		}
		if told = bindTPM(); !told || time.Now().After(end) {
			return "", told
		}
	}
}

// sayWhyNot repeats what the kernel said of a TPM that no driver has.
func sayWhyNot(c *console) {
	f, err := os.OpenFile("/dev/kmsg", os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer f.Close()
	entry := make([]byte, 8192) // a read gives one entry, and fails after the last
	for {
		n, err := unix.Read(int(f.Fd()), entry)
		if err != nil || n <= 0 {
			return
		}
		_, text, _ := strings.Cut(string(entry[:n]), ";")
		text, _, _ = strings.Cut(text, "\n")
		if lower := strings.ToLower(text); strings.Contains(lower, "tpm") || strings.Contains(lower, "msft0101") {
			c.say("tpm kernel=%q", text)
		}
	}
}

// bindTPM has drivers take each TPM that the firmware tells of, and reports whether there is one.
func bindTPM() (found bool) {
	for bus, driver := range map[string]string{"acpi": "tpm_crb", "platform": "tpm_tis", "pnp": "tpm_tis"} {
		devices, _ := filepath.Glob("/sys/bus/" + bus + "/devices/*")
		for _, device := range devices {
			ids, _ := os.ReadFile(filepath.Join(device, "id")) // of pnp
			name := filepath.Base(device)
			if !strings.HasPrefix(name, "MSFT0101") && !strings.Contains(string(ids), "PNP0C31") {
				continue
			}
			found = true
			_ = os.WriteFile("/sys/bus/"+bus+"/drivers/"+driver+"/bind", []byte(name), 0o200)
		}
	}
	return found
}

// readArea gives what the TPM keeps at an index, which all may read.
func readArea(t transport.TPM, index tpm2.TPMHandle) ([]byte, error) {
	public, err := tpm2.NVReadPublic{NVIndex: index}.Execute(t)
	if err != nil {
		return nil, err
	}
	area, err := public.NVPublic.Contents()
	if err != nil {
		return nil, err
	}
	named := tpm2.NamedHandle{Handle: index, Name: public.NVName}
	var data []byte
	for len(data) < int(area.DataSize) {
		size := min(area.DataSize-uint16(len(data)), 512)
		by := tpm2.AuthHandle{Handle: index, Name: public.NVName, Auth: tpm2.PasswordAuth(nil)}
		part, err := tpm2.NVRead{AuthHandle: by, NVIndex: named, Size: size, Offset: uint16(len(data))}.Execute(t)
		if err != nil {
			return nil, err
		}
		data = append(data, part.Data.Buffer...)
	}
	return data, nil
}

// tpmInterface tells TIS from CRB by the kernel driver that took the device.
func tpmInterface(name string) string {
	driver, err := os.Readlink(filepath.Join(tpmClass, name, "device", "driver"))
	switch {
	case err != nil:
		return "unknown"
	case strings.Contains(driver, "crb"):
		return "crb"
	default:
		return "tis"
	}
}

func readPCR(t transport.TPM, number uint) ([]byte, error) {
	selection := tpm2.TPMSPCRSelection{Hash: tpm2.TPMAlgSHA256, PCRSelect: tpm2.PCClientCompatible.PCRs(number)}
	r, err := tpm2.PCRRead{PCRSelectionIn: tpm2.TPMLPCRSelection{PCRSelections: []tpm2.TPMSPCRSelection{selection}}}.Execute(t)
	if err != nil {
		return nil, err
	}
	if len(r.PCRValues.Digests) == 0 {
		return nil, errors.New("no SHA-256 bank")
	}
	return r.PCRValues.Digests[0].Buffer, nil
}

// counterIndex is where the counter is: an index of the range that belongs to the owner.
const counterIndex = tpm2.TPMHandle(0x01500042)

// countUp adds one to the counter, which it makes when there is none, and gives
// what the TPM then reads back.
func countUp(t transport.TPM) (uint64, error) {
	owner := tpm2.AuthHandle{Handle: tpm2.TPMRHOwner, Auth: tpm2.PasswordAuth(nil)}
	public, err := tpm2.NVReadPublic{NVIndex: counterIndex}.Execute(t)
	if err != nil {
		area := tpm2.New2B(tpm2.TPMSNVPublic{
			NVIndex:    counterIndex,
			NameAlg:    tpm2.TPMAlgSHA256,
			Attributes: tpm2.TPMANV{OwnerRead: true, OwnerWrite: true, NoDA: true},
			DataSize:   8,
		})
		if _, err := (tpm2.NVDefineSpace{AuthHandle: owner, PublicInfo: area}).Execute(t); err != nil {
			return 0, fmt.Errorf("define: %w", err)
		}
		if public, err = (tpm2.NVReadPublic{NVIndex: counterIndex}).Execute(t); err != nil {
			return 0, fmt.Errorf("read public: %w", err)
		}
	}
	area, err := public.NVPublic.Contents()
	if err != nil {
		return 0, fmt.Errorf("read public: %w", err)
	}
	read := func() (uint64, error) {
		named := tpm2.NamedHandle{Handle: counterIndex, Name: public.NVName}
		r, err := tpm2.NVRead{AuthHandle: owner, NVIndex: named, Size: 8}.Execute(t)
		if err != nil {
			return 0, fmt.Errorf("read: %w", err)
		}
		if len(r.Data.Buffer) != 8 {
			return 0, io.ErrUnexpectedEOF
		}
		return binary.BigEndian.Uint64(r.Data.Buffer), nil
	}
	var n uint64
	if area.Attributes.Written { // what was never written cannot be read
		if n, err = read(); err != nil {
			return 0, err
		}
	}
	write := tpm2.NVWrite{
		AuthHandle: owner,
		NVIndex:    tpm2.NamedHandle{Handle: counterIndex, Name: public.NVName},
		Data:       tpm2.TPM2BMaxNVBuffer{Buffer: binary.BigEndian.AppendUint64(nil, n+1)},
	}
	if _, err := write.Execute(t); err != nil {
		return 0, fmt.Errorf("write: %w", err)
	}
	// The first write changes the index's name: it covers the "written" attribute.
	if public, err = (tpm2.NVReadPublic{NVIndex: counterIndex}).Execute(t); err != nil {
		return 0, fmt.Errorf("read public: %w", err)
	}
	return read()
}
