package wire

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenure-go/tenure/core"
)

var update = flag.Bool("update", false, "write the golden files anew")

const (
	nodeA = core.NodeID("alpha-0123456789abcdef")
	nodeB = core.NodeID("beta.example-fedcba9876543210")
)

func sampleLease() LeaseRecord {
	return LeaseRecord{
		Lease: core.Lease{
			Node: nodeA, Generation: "00112233445566778899aabbccddeeff", Seq: 7, TTL: 10_000 * millisecond,
			Contact: core.Contact{Addr: "10.0.0.1:7443", Key: strings.Repeat("0f", 32), Protocol: 1},
		},
		ExpiresMS: 1767225600000, Name: "alpha", Zone: "eu-1 <b>",
		Load: Load{Cells: 12, MaxCells: 100, Requests: 3},
	}
}

func sampleFleet() Fleet {
	return Fleet{Version: 1, ID: "ffeeddccbbaa99887766554433221100", LeaseTTL: 10_000 * millisecond, CreatedMS: 1767225600000}
}

// golden compares with, or with -update writes, testdata/<name>.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s:\n got %s\nwant %s", name, got, want)
	}
}

func TestGolden(t *testing.T) {
	tombstone := sampleLease()
	tombstone.Released, tombstone.Seq = true, 8
	bare := sampleLease()
	bare.Contact, bare.Name, bare.Zone, bare.Load = core.Contact{}, "", "", Load{}
	for name, body := range map[string][]byte{
		"owner.json":          EncodeOwner(core.Owner{Node: nodeA, Epoch: 1}),
		"owner-released.json": EncodeOwner(core.Owner{Epoch: 42}),
		"lease.json":          EncodeLease(sampleLease()),
		"lease-released.json": EncodeLease(tombstone),
		"lease-bare.json":     EncodeLease(bare),
		"fleet.json":          EncodeFleet(sampleFleet()),
	} {
		golden(t, name, body)
	}
}

func TestOwnerBytes(t *testing.T) {
	got := string(EncodeOwner(core.Owner{Node: nodeA, Epoch: 1}))
	if want := `{"node":"alpha-0123456789abcdef","epoch":1}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestRoundTrip(t *testing.T) {
	for _, want := range []core.Owner{{Node: nodeA, Epoch: 1}, {Epoch: 9}, {Node: nodeB, Epoch: MaxNumber}} {
		got, err := DecodeOwner(EncodeOwner(want))
		if err != nil || got != want {
			t.Errorf("owner %+v came back as %+v, %v", want, got, err)
		}
	}
	want := sampleLease()
	for _, released := range []bool{false, true} {
		want.Released = released
		got, err := DecodeLease(want.Node, EncodeLease(want))
		if err != nil || got != want {
			t.Errorf("lease %+v came back as %+v, %v", want, got, err)
		}
	}
	fleet, err := DecodeFleet(EncodeFleet(sampleFleet()))
	if err != nil || fleet != sampleFleet() {
		t.Errorf("fleet came back as %+v, %v", fleet, err)
	}
}

func TestEncodePanicsOnWhatWouldNotDecode(t *testing.T) {
	lease := sampleLease()
	lease.TTL++
	for name, encode := range map[string]func(){
		"epoch 0":          func() { EncodeOwner(core.Owner{Node: nodeA}) },
		"no node id":       func() { EncodeOwner(core.Owner{Node: "alpha", Epoch: 1}) },
		"ttl not whole":    func() { EncodeLease(lease) },
		"unknown version":  func() { EncodeFleet(Fleet{Version: 2, ID: "x", LeaseTTL: millisecond}) },
		"empty generation": func() { EncodeLease(LeaseRecord{Lease: core.Lease{Node: nodeA, Seq: 1, TTL: millisecond}}) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("it did not panic")
				}
			}()
			encode()
		})
	}
}

func TestKeys(t *testing.T) {
	if got := OwnerKey("room:1"); got != "cells/room:1/own.json" {
		t.Error(got)
	}
	if got := LeaseKey(nodeA); got != "nodes/alpha-0123456789abcdef.json" {
		t.Error(got)
	}
	if cell, ok := CellOfKey(OwnerKey("a.b")); !ok || cell != "a.b" {
		t.Error(cell, ok)
	}
	if node, ok := NodeOfKey(LeaseKey(nodeB)); !ok || node != nodeB {
		t.Error(node, ok)
	}
	for _, key := range []string{
		"", "cells/", "cells/own.json", "cells//own.json", "cells/../own.json", "cells/a/b/own.json",
		"cells/a/own.json.bak", "Cells/a/own.json", "x/cells/a/own.json", "cells/a b/own.json",
	} {
		if cell, ok := CellOfKey(key); ok {
			t.Errorf("%q reads as the key of cell %q", key, cell)
		}
	}
	for _, key := range []string{
		"", "nodes/", "nodes/.json", "nodes/alpha.json", "nodes/a/alpha-0123456789abcdef.json",
		"nodes/alpha-0123456789ABCDEF.json", "nodes/-0123456789abcdef.json", "nodes/alpha-0123456789abcdef",
	} {
		if node, ok := NodeOfKey(key); ok {
			t.Errorf("%q reads as the key of node %q", key, node)
		}
	}
}

func TestNewNodeID(t *testing.T) {
	id, err := NewNodeID("web 1.example", bytes.NewReader([]byte{1, 2, 3, 4, 5, 6, 7, 255}))
	if err != nil || id != "web-1.example-01020304050607ff" {
		t.Error(id, err)
	}
	if _, err := NewNodeID("web", bytes.NewReader([]byte{1, 2, 3})); err == nil {
		t.Error("too little randomness made an id")
	}
	if token, err := NewToken(bytes.NewReader(make([]byte, 16))); err != nil || len(token) != 32 {
		t.Error(token, err)
	}
}

func TestSafeName(t *testing.T) {
	for in, want := range map[string]string{
		"":                                    "node",
		"...":                                 "node",
		"web-1":                               "web-1",
		"Web_1.example.com":                   "Web_1.example.com",
		"a/b\x00c":                            "a-b-c",
		"  héllo wörld  ":                     "h-llo-w-rld",
		"日本":                                  "node",
		"-x-":                                 "x",
		strings.Repeat("a", 99):               strings.Repeat("a", MaxName),
		strings.Repeat("a", MaxName-1) + " b": strings.Repeat("a", MaxName-1),
	} {
		if got := SafeName(in); got != want {
			t.Errorf("SafeName(%q) is %q, want %q", in, got, want)
		}
	}
}
