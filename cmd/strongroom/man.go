package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"

	"strongroom"
)

type manCommand struct {
	Folder string `arg:"" type:"path" help:"Folder; it is made where it is not there."`
}

// Help is shown by --help.
func (manCommand) Help() string {
	return `One page for the program and one for each of its commands, made of what --help says:

  strongroom man /usr/local/share/man/man1
  man strongroom-server`
}

func (c manCommand) Run(k *kong.Kong) error {
	if err := os.MkdirAll(c.Folder, 0o755); err != nil {
		return err
	}
	for name, page := range manPages(k.Model.Node) {
		if err := os.WriteFile(filepath.Join(c.Folder, name+".1"), page, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// manPages are the manual pages by name: the program's, and those of its commands.
func manPages(program *kong.Node) map[string][]byte {
	pages := map[string][]byte{}
	var all []string
	for _, command := range program.Children {
		if command.Hidden {
			continue
		}
		name := program.Name + "-" + command.Name
		all = append(all, name)
		var p page
		p.title(name, command.Help)
		p.command(command)
		p.section("SEE ALSO", program.Name+"(1)")
		pages[name] = p.Bytes()
	}
	var p page
	p.title(program.Name, "the control plane for encrypted virtual machines, and its client")
	p.section("DESCRIPTION", description)
	p.flags("FLAGS", program.Flags)
	p.section("SEE ALSO", strings.Join(all, "(1), ")+"(1)")
	pages[program.Name] = p.Bytes()
	return pages
}

// page is a manual page in the macros of man(7).
type page struct{ bytes.Buffer }

func (p *page) title(name, what string) {
	fmt.Fprintf(p, ".TH %q 1 \"\" %q %q\n.SH NAME\n%s \\- %s\n", strings.ToUpper(name), "strongroom "+strongroom.Version(), "strongroom", roff(name), roff(strings.TrimSuffix(what, ".")))
}

// command describes a command and those below it.
func (p *page) command(n *kong.Node) {
	heading := strings.ToUpper(n.FullPath())
	if n.Leaf() || n.DefaultCmd != nil {
		p.section(heading, n.Help)
		fmt.Fprintf(p, ".PP\n.B %s\n", roff(n.Summary()))
	} else {
		p.section(heading, n.Help)
	}
	if n.Detail != "" {
		p.text(n.Detail)
	}
	for _, arg := range n.Positional {
		fmt.Fprintf(p, ".TP\n.I %s\n%s\n", roff(arg.Summary()), roff(arg.Help))
	}
	p.flags("", n.Flags)
	for _, child := range n.Children {
		if !child.Hidden {
			p.command(child)
		}
	}
}

func (p *page) section(heading, text string) {
	fmt.Fprintf(p, ".SH %q\n", heading)
	p.text(text)
}

// text writes paragraphs; indented lines, which are examples, stay as they are.
func (p *page) text(text string) {
	for block := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n\n") {
		if strings.HasPrefix(block, "  ") {
			fmt.Fprintf(p, ".PP\n.nf\n%s\n.fi\n", roff(block))
		} else {
			fmt.Fprintf(p, ".PP\n%s\n", roff(block))
		}
	}
}

func (p *page) flags(heading string, flags []*kong.Flag) {
	if heading != "" {
		fmt.Fprintf(p, ".SH %q\n", heading)
	}
	for _, f := range flags {
		if f.Hidden {
			continue
		}
		fmt.Fprintf(p, ".TP\n.B %s\n%s\n", roff(f.String()), roff(f.Help))
		for _, env := range f.Envs {
			fmt.Fprintf(p, "Environment: %s.\n", env)
		}
	}
}

// roff writes text so that no part of it is a macro.
func roff(text string) string {
	lines := strings.Split(strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
