package metadata

import "io"

// Label is the volume id by which guests find a config drive.
const Label = "config-2"

// Drive gives the files of a server's config drive by their paths. Of EC2's
// versions it has the newest alone, as Nova's has.
func (s Server) Drive(random io.Reader) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, version := range openStackVersions {
		for _, name := range s.openStackFiles(version) {
			body, err := s.openStackFile(version, name, random)
			if err != nil {
				return nil, err
			}
			files["openstack/"+version+"/"+name] = body
		}
	}
	for _, version := range []string{newestEC2, latest} {
		body, err := encode(s.ec2MetaData(version))
		if err != nil {
			return nil, err
		}
		files["ec2/"+version+"/meta-data.json"] = body
		if s.UserData != nil {
			files["ec2/"+version+"/user-data"] = s.UserData
		}
	}
	return files, nil
}
