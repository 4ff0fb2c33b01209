package strongroom_test

import (
	"go/scanner"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/source"
)

var (
	entry = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|.+\\|.+\\|.+\\|$")
	verb  = regexp.MustCompile(`%[-+# 0]*(?:\[\d+\])?[\d.*]*[a-zA-Z]`)
)

// Each entry of docs/troubleshooting.md begins with a text that the code has, with … for what it fills in.
func TestMessagesOfTroubleshootingAreThoseOfTheCode(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/troubleshooting.md")
	require.NoError(t, err)
	entries := entry.FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(entries), 40)
	require.Len(t, entries, strings.Count(string(page), "\n| `"), "an entry has four cells, and a message in the first")

	texts := textsOf(t, "api", "activities", "cmd/strongroom", "compute", "durable", "schema", "worker", "workflows")
	known := map[string]bool{}
	for _, m := range entries {
		message := m[1]
		assert.False(t, known[message], "it is there twice: %s", message)
		known[message] = true
		part := strings.Trim(message, "… ")
		assert.True(t, slices.ContainsFunc(texts, func(text string) bool {
			if strings.Contains(part, " ") {
				return strings.Contains(text, part)
			}
			return text == part // a word is part of many texts
		}), "the code has no such text: %s", message)
	}
}

// textsOf gives the texts in the Go files of folders, without tests: literals joined by +, with … in the place of verbs.
func textsOf(t *testing.T, folders ...string) (texts []string) {
	t.Helper()
	for _, folder := range folders {
		require.NoError(t, source.GoFiles(folder, func(path string, text []byte) error {
			if !strings.HasSuffix(path, "_test.go") {
				texts = append(texts, literals(text)...)
			}
			return nil
		}))
	}
	return texts
}

func literals(source []byte) (texts []string) {
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile("", -1, len(source)), source, nil, 0)
	before := [2]token.Token{} // of the two tokens before
	for {
		_, is, text := s.Scan()
		switch is {
		case token.EOF:
			return texts
		case token.STRING:
			text, _ = strconv.Unquote(text)
			text = strings.ReplaceAll(verb.ReplaceAllStringFunc(text, blank), "%%", "%")
			if before == [2]token.Token{token.STRING, token.ADD} {
				texts[len(texts)-1] += text
			} else {
				texts = append(texts, text)
			}
		}
		before = [2]token.Token{before[1], is}
	}
}

// blank is what stands for a verb.
func blank(verb string) string {
	if strings.HasSuffix(verb, "q") {
		return `"…"`
	}
	return "…"
}
