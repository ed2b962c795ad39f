package wire

import (
	"strings"
	"testing"
)

func TestBadOwner(t *testing.T) {
	for _, c := range []struct{ name, body string }{
		{"empty", ``},
		{"null", `null`},
		{"a list", `[]`},
		{"empty object", `{}`},
		{"cut off", `{"node":"","epoch":1`},
		{"trailing value", `{"node":"","epoch":1}{}`},
		{"trailing text", `{"node":"","epoch":1} x`},
		{"trailing comma", `{"node":"","epoch":1,}`},
		{"no epoch", `{"node":""}`},
		{"no node", `{"epoch":1}`},
		{"null node", `{"node":null,"epoch":1}`},
		{"null epoch", `{"node":"","epoch":null}`},
		{"other case", `{"Node":"","epoch":1}`},
		{"other case too", `{"node":"","EPOCH":1}`},
		{"node twice", `{"node":"","node":"","epoch":1}`},
		{"epoch twice", `{"node":"","epoch":1,"epoch":2}`},
		{"twice by an escape", `{"node":"","epoch":1,"\u0065poch":2}`},
		{"unknown twice", `{"node":"","epoch":1,"x":1,"x":1}`},
		{"epoch 0", `{"node":"","epoch":0}`},
		{"epoch -1", `{"node":"","epoch":-1}`},
		{"epoch -0", `{"node":"","epoch":-0}`},
		{"epoch 1.0", `{"node":"","epoch":1.0}`},
		{"epoch 1e3", `{"node":"","epoch":1e3}`},
		{"epoch in quotes", `{"node":"","epoch":"1"}`},
		{"epoch true", `{"node":"","epoch":true}`},
		{"epoch above 2^53", `{"node":"","epoch":9007199254740993}`},
		{"epoch above 2^64", `{"node":"","epoch":18446744073709551617}`},
		{"node is a number", `{"node":1,"epoch":1}`},
		{"node is an object", `{"node":{},"epoch":1}`},
		{"node without hex", `{"node":"alpha","epoch":1}`},
		{"node in capitals", `{"node":"alpha-0123456789ABCDEF","epoch":1}`},
		{"node with a slash", `{"node":"a/b-0123456789abcdef","epoch":1}`},
		{"node without name", `{"node":"-0123456789abcdef","epoch":1}`},
		{"node too long", `{"node":"` + strings.Repeat("a", MaxName+1) + `-0123456789abcdef","epoch":1}`},
		{"node is a space", `{"node":" ","epoch":1}`},
		{"half a surrogate", `{"node":"\ud800","epoch":1}`},
		{"invalid UTF-8", "{\"node\":\"\",\"epoch\":1,\"x\":\"\xff\"}"},
		{"byte order mark", "\ufeff" + `{"node":"","epoch":1}`},
		{"too large", `{"node":"","epoch":1,"x":"` + strings.Repeat("x", MaxRecord) + `"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if o, err := DecodeOwner([]byte(c.body)); err == nil {
				t.Errorf("%.99s decoded to %+v", c.body, o)
			}
		})
	}
}

func TestUnknownFieldsAreIgnored(t *testing.T) {
	body := ` { "future" : {"a":[1,null]}, "epoch" : 3 , "node" : "" , "Node" : 7 } ` + "\n"
	o, err := DecodeOwner([]byte(body))
	if err != nil || o.Node != "" || o.Epoch != 3 {
		t.Error(o, err)
	}
}

// edit returns the sample lease with one piece of its text exchanged.
func edit(t *testing.T, old, new string) string {
	t.Helper()
	body := string(EncodeLease(sampleLease()))
	if !strings.Contains(body, old) {
		t.Fatalf("%s has no %s", body, old)
	}
	return strings.Replace(body, old, new, 1)
}

func TestBadLease(t *testing.T) {
	for _, field := range []string{
		"node", "expires_ms", "ttl_ms", "generation", "seq", "addr", "peer_protocol", "tls_key",
	} {
		for _, to := range []string{strings.ToUpper(field), "x_" + field} {
			body := edit(t, `"`+field+`"`, `"`+to+`"`)
			if _, err := DecodeLease(nodeA, []byte(body)); err == nil {
				t.Errorf("decoded without %q", field)
			}
		}
	}
	for _, c := range [][2]string{
		{`"alpha-0123456789abcdef"`, `"beta-0123456789abcdef"`},
		{`"alpha-0123456789abcdef"`, `""`},
		{`"ttl_ms":10000`, `"ttl_ms":0`},
		{`"ttl_ms":10000`, `"ttl_ms":86400001`},
		{`"ttl_ms":10000`, `"ttl_ms":9223372036854775807`},
		{`"ttl_ms":10000`, `"ttl_ms":18446744073709`},
		{`"seq":7`, `"seq":0`},
		{`"seq":7`, `"seq":7,"seq":8`},
		{`"seq":7`, `"seq":null`},
		{`"generation":"00112233445566778899aabbccddeeff"`, `"generation":""`},
		{`"generation":"00112233445566778899aabbccddeeff"`, `"generation":"\u0000"`},
		{`"addr":"10.0.0.1:7443"`, `"addr":"10.0.0.1"`},
		{`"addr":"10.0.0.1:7443"`, `"addr":":7443"`},
		{`"addr":"10.0.0.1:7443"`, `"addr":"10.0.0.1:0"`},
		{`"addr":"10.0.0.1:7443"`, `"addr":"10.0.0.1:http"`},
		{`"addr":"10.0.0.1:7443"`, `"addr":null`},
		{`"peer_protocol":1`, `"peer_protocol":"1"`},
		{`"peer_protocol":1`, `"peer_protocol":-1`},
		{strings.Repeat("0f", 32), ``},
		{strings.Repeat("0f", 32), strings.Repeat("0F", 32)},
		{strings.Repeat("0f", 32), strings.Repeat("0f", 31)},
		{`"name":"alpha"`, `"name":null`},
		{`"name":"alpha"`, `"name":"` + strings.Repeat("n", 257) + `"`},
		{`"zone":"eu-1 <b>"`, `"zone":3`},
		{`"cells":12`, `"cells":-1`},
		{`"cells":12`, `"cells":1,"cells":2`},
		{`"load":{`, `"load":null,"x":{`},
		{`"load":{`, `"load":[],"x":{`},
		{`"load":{`, `"released":null,"load":{`},
		{`"load":{`, `"released":1,"load":{`},
		{`"load":{`, `"released":"true","load":{`},
	} {
		body := edit(t, c[0], c[1])
		if r, err := DecodeLease(nodeA, []byte(body)); err == nil {
			t.Errorf("%.80s decoded to %+v", c[1], r)
		}
	}
}

func TestLeaseTolerates(t *testing.T) {
	for _, c := range [][2]string{
		{`"name":"alpha",`, ``},
		{`"zone":"eu-1 <b>",`, ``},
		{`"load":{`, `"future":{`},
		{`"cells":12`, `"cpu":0.5`},
		{`"load":{`, `"released":false,"load":{`},
		{`"addr":"10.0.0.1:7443"`, `"addr":""`},
		{`"addr":"10.0.0.1:7443"`, `"addr":"[::1]:7443"`},
	} {
		r, err := DecodeLease(nodeA, []byte(edit(t, c[0], c[1])))
		if err != nil || r.Released || r.Node != nodeA {
			t.Errorf("%s: %+v, %v", c[1], r, err)
		}
	}
}

func TestBadFleet(t *testing.T) {
	for _, body := range []string{
		`{}`,
		`{"version":2,"fleet_id":"x","lease_ttl_ms":1000,"created_ms":1}`,
		`{"version":1,"fleet_id":"","lease_ttl_ms":1000,"created_ms":1}`,
		`{"version":1,"fleet_id":"x","lease_ttl_ms":0,"created_ms":1}`,
		`{"version":1,"fleet_id":"x","lease_ttl_ms":86400001,"created_ms":1}`,
		`{"version":1,"fleet_id":"x","lease_ttl_ms":1000}`,
		`{"version":1,"Fleet_id":"x","lease_ttl_ms":1000,"created_ms":1}`,
		`{"version":1,"fleet_id":"x","lease_ttl_ms":1000,"created_ms":1}[]`,
	} {
		if f, err := DecodeFleet([]byte(body)); err == nil {
			t.Errorf("%s decoded to %+v", body, f)
		}
	}
}
