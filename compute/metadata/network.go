package metadata

import "fmt"

// networkData is network_data.json: the interfaces, each of which gets its
// address from its network.
type networkData struct {
	Links    []link    `json:"links"`
	Networks []network `json:"networks"`
	Services []string  `json:"services"` // name servers: the networks name them
}

type link struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	MAC  string `json:"ethernet_mac_address"`
}

type network struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	Link      string `json:"link"`
	NetworkID string `json:"network_id"`
}

func (s Server) networkData() networkData {
	out := networkData{Links: []link{}, Networks: []network{}, Services: []string{}}
	for i, n := range s.Networks {
		id := fmt.Sprintf("interface%d", i)
		out.Links = append(out.Links, link{ID: id, Type: "bridge", MAC: n.MAC})
		out.Networks = append(out.Networks, network{ID: fmt.Sprintf("network%d", i), Type: "ipv4_dhcp", Link: id, NetworkID: n.UUID})
	}
	return out
}
