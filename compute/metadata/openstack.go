package metadata

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
)

// The versions of OpenStack's documents that changed something.
const (
	vFirst    = "2012-08-10"
	vSeed     = "2013-04-04" // random_seed
	vVendor   = "2013-10-17" // vendor_data.json
	vNetwork  = "2015-10-15" // network_data.json, project_id
	vDevices  = "2016-06-30" // devices
	vVendor2  = "2016-10-06" // vendor_data2.json
	vVLAN     = "2017-02-22" // of tagged interfaces; there are none
	vTrusted  = "2018-08-27" // of tagged interfaces; there are none
	vCPUs     = "2020-10-14" // dedicated_cpus
	vShares   = "2025-04-04" // shares among the devices
	latest    = "latest"     // sorts after all of them
	seedBytes = 512
)

var openStackVersions = []string{
	vFirst, vSeed, vVendor, vNetwork, vDevices, vVendor2, vVLAN, vTrusted, vCPUs, vShares, latest,
}

// The documents of OpenStack.
const (
	metaDataFile    = "meta_data.json"
	userDataFile    = "user_data"
	vendorDataFile  = "vendor_data.json"
	vendorData2File = "vendor_data2.json"
	networkDataFile = "network_data.json"
)

// openStackFiles lists the documents of a version.
func (s Server) openStackFiles(version string) []string {
	files := []string{metaDataFile}
	if s.UserData != nil {
		files = append(files, userDataFile)
	}
	for _, f := range []struct{ since, name string }{{vVendor, vendorDataFile}, {vNetwork, networkDataFile}, {vVendor2, vendorData2File}} {
		if version >= f.since {
			files = append(files, f.name)
		}
	}
	return files
}

// openStackFile gives a document of those that openStackFiles lists.
func (s Server) openStackFile(version, name string, random io.Reader) ([]byte, error) {
	switch name {
	case userDataFile:
		return s.UserData, nil
	case vendorDataFile:
		return []byte("{}"), nil
	case vendorData2File:
		return []byte(`{"static": {}}`), nil
	case networkDataFile:
		return encode(s.networkData())
	default:
		return s.metaData(version, random)
	}
}

// metaData is meta_data.json. What a version does not have is left out.
type metaData struct {
	UUID          string            `json:"uuid"`
	Meta          map[string]string `json:"meta,omitempty"`
	PublicKeys    map[string]string `json:"public_keys,omitempty"`
	Keys          []keypair         `json:"keys,omitempty"`
	Hostname      string            `json:"hostname"`
	Name          string            `json:"name"`
	LaunchIndex   int               `json:"launch_index"`
	Zone          string            `json:"availability_zone"`
	RandomSeed    string            `json:"random_seed,omitempty"`
	ProjectID     string            `json:"project_id,omitempty"`
	Devices       []device          `json:"devices,omitzero"`
	DedicatedCPUs []int             `json:"dedicated_cpus,omitzero"`
}

type keypair struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Data string `json:"data"`
}

// metaData is the document of a version. The seed of the guest's random numbers
// is another one at every reading, and is kept nowhere.
func (s Server) metaData(version string, random io.Reader) ([]byte, error) {
	m := metaData{
		UUID: s.ID.String(), Meta: s.Metadata, Hostname: s.Hostname, Name: s.Name, LaunchIndex: s.LaunchIndex, Zone: s.Zone,
	}
	if s.KeyName != "" {
		m.PublicKeys = map[string]string{s.KeyName: s.PublicKey}
		m.Keys = []keypair{{Name: s.KeyName, Type: s.keyType(), Data: s.PublicKey}}
	}
	if version >= vSeed {
		seed := make([]byte, seedBytes)
		if _, err := io.ReadFull(random, seed); err != nil {
			return nil, err
		}
		m.RandomSeed = base64.StdEncoding.EncodeToString(seed)
	}
	if version >= vNetwork {
		m.ProjectID = s.ProjectID
	}
	if version >= vDevices {
		m.Devices = s.devices(version)
	}
	if version >= vCPUs {
		m.DedicatedCPUs = []int{} // guests share the processors
	}
	return encode(m)
}

// encode writes JSON as it is meant for people too: "<" is no danger here.
func encode(value any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
