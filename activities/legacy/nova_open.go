package legacy

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"strongroom/compute"
)

// openNova opens a database by its URL, in the words of SQLAlchemy, with the password. Invalid: it
// makes no sense; the error has nothing of it but names of parameters.
func openNova(at string) (*sql.DB, error) {
	no := compute.Errorf(compute.Invalid, "the URL of Nova's database must be like mysql+pymysql://USER:PASSWORD@HOST/nova or postgresql://…, "+
		"as [database]/connection of nova.conf has it")
	u, err := url.Parse(strings.TrimSpace(at))
	if err != nil {
		return nil, no
	}
	switch kind, _, _ := strings.Cut(u.Scheme, "+"); kind { // the rest is the driver that Nova had
	case "mysql", "mariadb":
		return openMySQL(u)
	case "postgresql", "postgres":
		u.Scheme = "postgres"
		cfg, err := pgx.ParseConfig(u.String())
		if err != nil {
			return nil, no
		}
		return stdlib.OpenDB(*cfg), nil
	}
	return nil, no
}

// openMySQL knows of PyMySQL's parameters those of how to reach the server.
func openMySQL(u *url.URL) (*sql.DB, error) {
	c := mysql.NewConfig()
	c.User, c.DBName, c.Logger = u.User.Username(), strings.TrimPrefix(u.Path, "/"), &mysql.NopLogger{}
	c.Passwd, _ = u.User.Password()
	c.Net, c.Addr = "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "3306"))
	for name, values := range u.Query() {
		switch value := values[0]; name {
		case "charset", "plugin": // of SQLAlchemy's and oslo.db's own
		case "unix_socket":
			c.Net, c.Addr = "unix", value
		case "ssl_ca":
			roots := x509.NewCertPool()
			text, err := os.ReadFile(value)
			if err != nil || !roots.AppendCertsFromPEM(text) {
				return nil, compute.Errorf(compute.Invalid, "ssl_ca of the URL of Nova's database names no file of certificates here: %q", value)
			}
			c.TLS = &tls.Config{RootCAs: roots, ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}
		default:
			return nil, compute.Errorf(compute.Invalid, "the URL of Nova's database has the parameter %s, which is not known here: leave it out, or have charset, unix_socket or ssl_ca", name)
		}
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, compute.Errorf(compute.Invalid, "the URL of Nova's database names no server that can be reached")
	}
	return sql.OpenDB(connector), nil
}
