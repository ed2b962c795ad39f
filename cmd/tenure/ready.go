package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// readyFile is the path of the file that is there while the node is ready, or
// empty for none.
type readyFile string

// readyInfo is what the file says.
type readyInfo struct {
	Node   string `json:"node"`
	Listen string `json:"listen"`
	Peer   string `json:"peer"`
	Admin  string `json:"admin"`
}

func (r readyFile) write(n node) error {
	if r == "" {
		return nil
	}
	a := n.Addrs()
	body, err := json.Marshal(readyInfo{Node: n.ID(), Listen: a.Listen, Peer: a.Peer, Admin: a.Admin})
	if err != nil {
		return err
	}
	return writeWhole(string(r), append(body, '\n'))
}

// writeWhole leaves the file whole or not at all, also across a crash.
func writeWhole(path string, body []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // after the rename there is none
	_, err = temp.Write(body)
	err = errors.Join(err, temp.Chmod(0o644), temp.Sync(), temp.Close())
	if err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}

// remove takes the file away; it is no error if there is none.
func (r readyFile) remove() error {
	if r == "" {
		return nil
	}
	if err := os.Remove(string(r)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// read is what the file says; false while there is none.
func (r readyFile) read() (readyInfo, bool) {
	body, err := os.ReadFile(string(r))
	if err != nil {
		return readyInfo{}, false
	}
	var info readyInfo
	return info, json.Unmarshal(body, &info) == nil
}
