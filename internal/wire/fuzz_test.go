package wire

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tenure-go/tenure/core"
)

func FuzzDecodeOwner(f *testing.F) {
	f.Add(EncodeOwner(core.Owner{Node: nodeA, Epoch: 1}))
	f.Add(EncodeOwner(core.Owner{Epoch: MaxNumber}))
	for _, s := range []string{
		``, `{}`, `{"node":null,"epoch":1}`, `{"Node":"","epoch":1}`, `{"node":"","epoch":1}x`,
		`{"node":"","epoch":1,"epoch":2}`, `{"x":{"y":[]},"epoch":1,"node":""}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		o, err := DecodeOwner(body)
		if err != nil {
			if o != (core.Owner{}) {
				t.Errorf("an error, and %+v", o)
			}
			return
		}
		if again, err := DecodeOwner(EncodeOwner(o)); err != nil || again != o {
			t.Errorf("%+v became %+v, %v", o, again, err)
		}
	})
}

func FuzzDecodeLease(f *testing.F) {
	tombstone := sampleLease()
	tombstone.Released = true
	for _, r := range []LeaseRecord{sampleLease(), tombstone} {
		f.Add(string(r.Node), EncodeLease(r))
		f.Add(string(nodeB), EncodeLease(r))
	}
	f.Add(string(nodeA), []byte(`{"node":"alpha-0123456789abcdef"}`))
	f.Fuzz(func(t *testing.T, node string, body []byte) {
		r, err := DecodeLease(core.NodeID(node), body)
		if err != nil {
			if r != (LeaseRecord{}) {
				t.Errorf("an error, and %+v", r)
			}
			return
		}
		if r.Node != core.NodeID(node) || r.TTL < millisecond || r.Seq == 0 {
			t.Errorf("decoded to %+v", r)
		}
		if again, err := DecodeLease(r.Node, EncodeLease(r)); err != nil || again != r {
			t.Errorf("%+v became %+v, %v", r, again, err)
		}
	})
}

func FuzzDecodeFleet(f *testing.F) {
	f.Add(EncodeFleet(sampleFleet()))
	f.Add([]byte(`{"version":2,"fleet_id":"x","lease_ttl_ms":1,"created_ms":0}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := DecodeFleet(body)
		if err != nil {
			return
		}
		if again, err := DecodeFleet(EncodeFleet(r)); err != nil || again != r {
			t.Errorf("%+v became %+v, %v", r, again, err)
		}
	})
}

// Whatever Check passes must encode and come back the same.
func FuzzRoundTripLease(f *testing.F) {
	s := sampleLease()
	f.Add(s.Name, s.Zone, s.Generation, s.Addr, s.Key, s.Seq, int64(s.TTL), s.ExpiresMS, int64(3), true)
	f.Add("", "", "g", "", "", uint64(1), int64(millisecond), int64(0), int64(0), false)
	f.Add("<&>\u2028", "\"\\", "g", "[::1]:1", strings.Repeat("a", 64), uint64(2), int64(MaxTTL), int64(1), int64(9), false)
	f.Fuzz(func(t *testing.T, name, zone, gen, addr, key string, seq uint64, ttl, expires, cells int64, released bool) {
		r := sampleLease()
		r.Name, r.Zone, r.Generation, r.Addr, r.Key = name, zone, gen, addr, key
		r.Seq, r.TTL, r.ExpiresMS, r.Load.Cells, r.Released = seq, core.Time(ttl), expires, cells, released
		if r.Check() != nil {
			return
		}
		body := EncodeLease(r)
		if got, err := DecodeLease(r.Node, body); err != nil || got != r {
			t.Errorf("%+v came back from %s as %+v, %v", r, body, got, err)
		}
	})
}

func FuzzSafeName(f *testing.F) {
	for _, s := range []string{"", "web-1", "日本", "a b", strings.Repeat("x", 99), "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		id, err := NewNodeID(name, strings.NewReader("01234567"))
		if err != nil || CheckNodeID(id) != nil || !utf8.ValidString(string(id)) {
			t.Errorf("%q made the node id %q: %v, %v", name, id, err, CheckNodeID(id))
		}
		if back, ok := NodeOfKey(LeaseKey(id)); !ok || back != id {
			t.Errorf("the key of %q reads as %q", id, back)
		}
		if again := SafeName(SafeName(name)); again != SafeName(name) {
			t.Errorf("SafeName(%q) is not stable: %q", name, again)
		}
	})
}
