package devcloud

// Project is a project of a users' file.
type Project struct {
	ID, Name string
	Network  int // counts from 1, and stays with the project whatever becomes of others
}

// Projects gives the projects of a users' file that users have, in its order: all but the one of strongroom's
// own services.
func Projects(path string) ([]Project, error) {
	d, err := loadUsers(path)
	if err != nil {
		return nil, err
	}
	var out []Project
	for _, p := range d.Projects {
		if p.Name != ServiceProject {
			out = append(out, Project{ID: p.ID, Name: p.Name, Network: p.Network})
		}
	}
	return out, nil
}
