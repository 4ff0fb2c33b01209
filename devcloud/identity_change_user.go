package devcloud

import (
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"
	"golang.org/x/crypto/bcrypt"
)

// maxPassword is how many bytes of a password bcrypt looks at.
const maxPassword = 72

type userBody struct {
	placement
	Name           *string `json:"name"`
	Description    *string `json:"description"`
	Email          *string `json:"email"`
	Password       *string `json:"password"`
	DefaultProject *string `json:"default_project_id"`
	Enabled        *bool   `json:"enabled"`
}

func readUser(c echo.Context) (body userBody, hash string, err error) {
	sent, err := readThing(c, "user", &body, map[string]nullIs{
		"default_project_id": empty, "description": empty, "domain_id": absent, "email": empty, "enabled": refused, "name": refused, "options": absent, "password": absent,
	})
	if err == nil {
		err = body.check()
	}
	switch _, named := sent["password"]; {
	case err != nil || !named:
	case body.Password != nil:
		hash, err = hashPassword(*body.Password)
	default: // null: there is none any more
		hash, err = unknownPassword()
	}
	return body, hash, err
}

// unknownPassword hashes a password that nobody knows.
func unknownPassword() (string, error) { return hashPassword(newID()) }

func hashPassword(password string) (string, error) {
	if password == "" || len(password) > maxPassword {
		return "", fault(http.StatusBadRequest, "A password has 1 to %d bytes.", maxPassword)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.DefaultCost)
	return string(hash), err
}

// setPassword gives a user another password, and ends the tokens of the old one.
func (u *user) setPassword(hash string) { u.PasswordHash, u.Logins = hash, u.Logins+1 }

// apply changes a user of the directory, all but the password.
func (b userBody) apply(d *directory, u *user) error {
	if b.Name != nil && *b.Name != u.Name {
		if err := checkName("user", *b.Name, maxUserName); err != nil {
			return err
		}
		if d.userNamed(*b.Name) != nil {
			return duplicate("user", *b.Name)
		}
		u.Name = *b.Name
	}
	if b.Description != nil {
		u.Description = text(*b.Description)
	}
	if b.Email != nil {
		u.Email = text(*b.Email)
	}
	if b.DefaultProject != nil {
		if *b.DefaultProject != "" && d.project(*b.DefaultProject) == nil {
			return fault(http.StatusBadRequest, "There is no project %q, which is to be the user's default.", *b.DefaultProject)
		}
		u.DefaultProject = *b.DefaultProject
	}
	if b.Enabled != nil && *b.Enabled == u.Disabled {
		u.Disabled = !*b.Enabled
		u.Logins++
	}
	return nil
}

// createUser is POST /v3/users. One without a password cannot log in until it is given one.
func (i *identity) createUser(c echo.Context) error {
	body, hash, err := readUser(c)
	if err != nil {
		return err
	}
	if body.Name == nil {
		return fault(http.StatusBadRequest, "A user needs a name.")
	}
	if hash == "" {
		if hash, err = unknownPassword(); err != nil {
			return err
		}
	}
	made := user{ID: newID(), PasswordHash: hash, Roles: map[string][]string{}}
	err = i.users.change(func(d *directory) error {
		if err := body.apply(d, &made); err != nil {
			return err
		}
		d.Users = append(d.Users, made)
		return nil
	})
	if err != nil {
		return err
	}
	return c.JSON(http.StatusCreated, map[string]any{"user": i.userDocument(&made)})
}

// changeUser has fn change the user in the path.
func (i *identity) changeUser(c echo.Context, fn func(*directory, *user) error) error {
	return i.users.change(func(d *directory) error {
		u := d.user(c.Param("id"))
		switch {
		case u == nil:
			return notFound("user", c.Param("id"))
		case u.Name == ServiceUser:
			return strongroomsOwn("user", u.Name)
		}
		return fn(d, u)
	})
}

// updateUser is PATCH /v3/users/{id}.
func (i *identity) updateUser(c echo.Context) error {
	body, hash, err := readUser(c)
	if err != nil {
		return err
	}
	var changed user
	err = i.changeUser(c, func(d *directory, u *user) error {
		if err := body.apply(d, u); err != nil {
			return err
		}
		if hash != "" {
			u.setPassword(hash)
		}
		changed = *u
		return nil
	})
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, map[string]any{"user": i.userDocument(&changed)})
}

// deleteUser is DELETE /v3/users/{id}.
func (i *identity) deleteUser(c echo.Context) error {
	err := i.changeUser(c, func(d *directory, gone *user) error {
		id := gone.ID
		d.Users = slices.DeleteFunc(d.Users, func(u user) bool { return u.ID == id })
		return nil
	})
	if err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// changePassword is POST /v3/users/{id}/password: users change their own, and say the one that they have.
func (i *identity) changePassword(c echo.Context) error {
	var body struct {
		Password string `json:"password"`
		Original string `json:"original_password"`
	}
	if _, err := readThing(c, "user", &body, map[string]nullIs{"original_password": refused, "password": refused}); err != nil {
		return err
	}
	caller := callerOf(c)
	if c.Param("id") != caller.UserID {
		return forbidden("identity:change_password")
	}
	users := i.users.now()
	u := users.user(caller.UserID)
	if !users.checkPassword(u, body.Original) {
		return unauthorized()
	}
	hash, err := hashPassword(body.Password)
	if err != nil {
		return err
	}
	err = i.changeUser(c, func(_ *directory, now *user) error {
		if now.PasswordHash != u.PasswordHash { // somebody else changed it since
			return unauthorized()
		}
		now.setPassword(hash)
		return nil
	})
	if err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
