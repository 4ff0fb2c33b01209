// Package hostile makes images as an attacker would, for tests of all that reads images.
package hostile
