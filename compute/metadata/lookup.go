package metadata

import (
	"io"
	"path"
	"slices"
	"strings"

	"strongroom/compute"
)

// The media types of answers.
const (
	TypeText = "text/plain"
	TypeJSON = "application/json"
)

// Answer is what is found under a path: a document, or the list of what is below.
type Answer struct {
	Type string
	Body []byte
}

// Root is the answer to "/", which needs no server: the versions of EC2.
func Root() Answer { return list(ec2Versions) }

// Lookup gives what is under a path of the metadata service; what is neither
// below /openstack nor /ec2 is EC2's. random is where the seeds of guests come
// from. NotFound: there is nothing.
func (s Server) Lookup(p string, random io.Reader) (Answer, error) {
	tokens := strings.Split(path.Clean("/"+p), "/")[1:]
	switch tokens[0] {
	case "openstack":
		return s.lookupOpenStack(tokens[1:], random)
	case "ec2":
		return s.lookupEC2(tokens[1:])
	case "":
		return Root(), nil
	default:
		return s.lookupEC2(tokens)
	}
}

func (s Server) lookupOpenStack(tokens []string, random io.Reader) (Answer, error) {
	if len(tokens) == 0 {
		return list(openStackVersions), nil
	}
	version := tokens[0]
	if !slices.Contains(openStackVersions, version) {
		return Answer{}, nothing()
	}
	files := s.openStackFiles(version)
	if len(tokens) == 1 {
		return list(files), nil
	}
	name := strings.Join(tokens[1:], "/")
	if !slices.Contains(files, name) {
		return Answer{}, nothing()
	}
	body, err := s.openStackFile(version, name, random)
	if strings.HasSuffix(name, ".json") {
		return Answer{Type: TypeJSON, Body: body}, err
	}
	return Answer{Type: TypeText, Body: body}, err
}

func (s Server) lookupEC2(tokens []string) (Answer, error) {
	if len(tokens) == 0 {
		return list(ec2Versions), nil
	}
	if !slices.Contains(ec2Versions, tokens[0]) {
		return Answer{}, nothing()
	}
	var at node = s.ec2(tokens[0])
	for _, name := range tokens[1:] {
		below, ok := at.(folder)
		if !ok || name == named || below[name] == nil {
			return Answer{}, nothing()
		}
		at = below[name]
	}
	return Answer{Type: TypeText, Body: []byte(at.print())}, nil
}

func list(lines []string) Answer {
	return Answer{Type: TypeText, Body: []byte(strings.Join(lines, "\n"))}
}

func nothing() error { return compute.Errorf(compute.NotFound, "no such metadata") }
