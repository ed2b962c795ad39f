// Package azserver runs a real Azure Blob Storage server, Azurite, on a loopback
// port for the tests.
package azserver

import (
	"net"
	"net/url"
	"os/exec"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/tenure-go/tenure/bucket/azure"
	"github.com/tenure-go/tenure/internal/program"
)

var azurite = program.NodePackage{Name: "azurite", Version: "3.37.0", Main: "dist/src/blob/main.js"}

// The account that every Azurite has, and everybody knows.
const (
	account = "devstoreaccount1"
	key     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// Server is a running store with one empty container.
type Server struct {
	Endpoint  string // the URL of the server, without the account
	Container string
}

// Start runs Azurite until the test ends. Where there is no Node.js, or it cannot
// be fetched, the test is skipped, or fails if CI=true.
func Start(t testing.TB) *Server {
	t.Helper()
	file, dir := azurite.Find(t), t.TempDir()
	p := program.Start(t, func(address string) *exec.Cmd {
		host, port, _ := net.SplitHostPort(address)
		return exec.Command("node", file, "--blobHost", host, "--blobPort", port, "--location", dir,
			"--silent", "--skipApiVersionCheck", "--disableTelemetry")
	})
	s := &Server{Endpoint: "http://" + p.Address, Container: "fleet"}
	secret, err := container.NewSharedKeyCredential(account, key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := container.NewClientWithSharedKeyCredential(s.Options().Endpoint+"/"+s.Container, secret, nil)
	if err == nil {
		_, err = c.Create(t.Context(), nil)
	}
	if err != nil {
		t.Fatalf("make a container: %v", err)
	}
	return s
}

// Options open the server's container with a client of its own.
func (s *Server) Options() azure.Options {
	return azure.Options{Container: s.Container, Account: account, Key: key, Endpoint: s.Endpoint + "/" + account}
}

// URL is the container as a command line names it. The credentials are in Env.
func (s *Server) URL() string {
	return "az://" + s.Container + "?" + url.Values{"endpoint": {s.Options().Endpoint}}.Encode()
}

// Env are the variables that give a child process access.
func (s *Server) Env() []string {
	return []string{"AZURE_STORAGE_ACCOUNT=" + account, "AZURE_STORAGE_KEY=" + key}
}
