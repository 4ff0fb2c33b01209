// Package luks writes LUKS version 1 headers for disks that hold nothing yet, and
// changes the key slots of headers that are in use.
//
// QEMU's own way to make one runs a benchmark of two CPU seconds, to learn how
// often to hash a passphrase so that guessing it gets dear. strongroom's own
// passphrases are the text of 64 random bytes: no guessing reaches them at any
// price, so few rounds do and a header takes milliseconds. What users bring may be
// weak and gets many more (Rounds). QEMU and cryptsetup open what is written here;
// the tests ask them.
//
// Source: LUKS On-Disk Format Specification 1.2.3.
package luks
