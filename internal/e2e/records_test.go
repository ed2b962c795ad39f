//go:build unix

package e2e

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tenure-go/tenure/bucket"
)

const ghost = "ghost-0123456789abcdef" // a node that never was

// badOwners are bodies of own.json that are not ownership records.
var badOwners = map[string]string{
	"truncated":        `{"node":"` + ghost + `","epo`,
	"empty":            ``,
	"text":             `hello`,
	"null":             `null`,
	"list":             `[{"node":"","epoch":1}]`,
	"nothing-in-it":    `{}`,
	"no-epoch":         `{"node":"` + ghost + `"}`,
	"no-node":          `{"epoch":3}`,
	"null-node":        `{"node":null,"epoch":3}`,
	"epoch-0":          `{"node":"","epoch":0}`,
	"epoch-negative":   `{"node":"","epoch":-1}`,
	"epoch-fraction":   `{"node":"","epoch":1.5}`,
	"epoch-text":       `{"node":"","epoch":"1"}`,
	"epoch-huge":       `{"node":"","epoch":99999999999999999999}`,
	"epoch-twice":      `{"node":"","epoch":1,"epoch":2}`,
	"not-a-node":       `{"node":"me","epoch":1}`,
	"other-case":       `{"Node":"","Epoch":1}`,
	"two-records":      `{"node":"","epoch":1}{"node":"","epoch":1}`,
	"large":            `{"node":"","epoch":1,"x":"` + strings.Repeat("x", 20<<10) + `"}`,
	"as-large-as-goes": `{"node":"","epoch":1}` + strings.Repeat(" ", bucket.MaxBody-21),
}

// badLeases are bodies of an owner's lease that are not its lease records.
var badLeases = map[string]string{
	"truncated":     `{"node":"NODE","expires_ms":1,"ttl_`,
	"empty":         ``,
	"text":          `hello`,
	"null":          `null`,
	"no-ttl":        `{"node":"NODE","expires_ms":1,"generation":"g","seq":1,"addr":"127.0.0.1:1","peer_protocol":1,"tls_key":"` + strings.Repeat("a", 64) + `"}`,
	"other-node":    strings.ReplaceAll(goodLease, "NODE", ghost),
	"released-text": strings.ReplaceAll(goodLease, `"seq"`, `"released":"yes","seq"`),
	"large":         strings.ReplaceAll(goodLease, `"seq"`, `"x":"`+strings.Repeat("x", 20<<10)+`","seq"`),
}

var goodLease = `{"node":"NODE","expires_ms":1,"ttl_ms":2000,"generation":"g","seq":1,"addr":"127.0.0.1:1","peer_protocol":1,"tls_key":"` + strings.Repeat("a", 64) + `"}`

// TestBadRecords: what is in the bucket and is not ours is never taken for
// absent or released, and never overwritten, however long it stays.
func TestBadRecords(t *testing.T) {
	onEveryStore(t, func(t *testing.T, p place) {
		startFleet(t, p, 1) // leases in a bucket without a fleet are refused
		objects := putBadRecords(t, p)
		f := startFleet(t, p, 2)
		cells := badCells()
		askAll(t, f, cells)
		until(time.Now().Add(takeover + 500*time.Millisecond)) // long enough to see a lease unchanged
		askAll(t, f, cells)
		for key, before := range objects {
			b := p.cells
			if strings.HasPrefix(key, "nodes/") {
				b = p.leases
			}
			after := object(t, b, key)
			if !bytes.Equal(after.Body, before.Body) || after.Version != before.Version {
				t.Errorf("%s was changed: it was %.80q, is %.80q", key, before.Body, after.Body)
			}
		}
		if a := request(t, "POST", f.nodes[0].ready.Listen, "good", ""); !a.ok() {
			t.Errorf("a cell with nothing wrong: %v", a)
		}
		checkAlive(t, f.nodes...)
	})
}

// badCells are the cells whose own record, or whose owner's, is bad.
func badCells() []string {
	var cells []string
	for name := range badOwners {
		cells = append(cells, "own:"+name)
	}
	for name := range badLeases {
		cells = append(cells, "lease:"+name)
	}
	return cells
}

func askAll(t *testing.T, f *fleet, cells []string) {
	t.Helper()
	for i, cell := range cells {
		for _, method := range []string{"GET", "POST"} {
			a := request(t, method, f.nodes[i%len(f.nodes)].ready.Listen, cell, "")
			wantProblem(t, a, 502, "bad-record")
			if a.problem.Cell != cell {
				t.Errorf("the failure is about cell %q, want %q", a.problem.Cell, cell)
			}
		}
	}
}

// putBadRecords writes them, and returns what is there.
func putBadRecords(t *testing.T, p place) map[string]bucket.Object {
	t.Helper()
	objects := map[string]bucket.Object{}
	for name, body := range badOwners {
		put(t, p.cells, ownKey("own:"+name), body, objects)
	}
	n := 0
	for name, body := range badLeases {
		n++
		id := fmt.Sprintf("ghost-%016x", n)
		put(t, p.leases, leaseKey(id), strings.ReplaceAll(body, "NODE", id), objects)
		put(t, p.cells, ownKey("lease:"+name), fmt.Sprintf(`{"node":"%s","epoch":7}`, id), objects)
	}
	return objects
}

func put(t *testing.T, b bucket.Bucket, key, body string, objects map[string]bucket.Object) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startUp)
	defer cancel()
	if _, err := b.Create(ctx, key, []byte(body)); err != nil {
		t.Fatalf("create %s: %v", key, err)
	}
	objects[key] = object(t, b, key)
}

// TestHugeRecord: an object that is larger than any record, and larger than the
// program reads at all, is no record either.
func TestHugeRecord(t *testing.T) {
	onEveryStore(t, func(t *testing.T, p place) {
		if p.server == nil && p.path == "" {
			t.Skip("this store is written only through the program's own client, which refuses that")
		}
		if _, err := p.cells.Create(t.Context(), ownKey("huge"), []byte(`{"node":"","epoch":1}`)); err != nil {
			t.Fatal(err)
		}
		body := `{"node":"","epoch":1}` + strings.Repeat(" ", 4*bucket.MaxBody)
		p.overwrite(t, ownKey("huge"), body)
		f := startFleet(t, p, 1)
		askAll(t, f, []string{"huge"})
		if got := p.raw(t, ownKey("huge")); got != body {
			t.Errorf("the object was changed: it had %d bytes, has %d", len(body), len(got))
		}
	})
}

// overwrite puts an object into the store past the program's own client, which
// would refuse it.
func (p place) overwrite(t *testing.T, key, body string) {
	t.Helper()
	var err error
	if p.server == nil {
		_, err = p.database(t).Exec("UPDATE object SET body = ? WHERE key = ?", []byte(body), key)
	} else {
		_, err = p.client().PutObject(t.Context(), &s3.PutObjectInput{Bucket: &p.server.Bucket, Key: &key, Body: strings.NewReader(body)})
	}
	if err != nil {
		t.Fatalf("overwrite %s: %v", key, err)
	}
}

// raw reads an object in the same way.
func (p place) raw(t *testing.T, key string) string {
	t.Helper()
	var body bytes.Buffer
	if p.server == nil {
		var b []byte
		if err := p.database(t).QueryRow("SELECT body FROM object WHERE key = ?", key).Scan(&b); err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	out, err := p.client().GetObject(t.Context(), &s3.GetObjectInput{Bucket: &p.server.Bucket, Key: &key})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Body.Close()
	if _, err := body.ReadFrom(out.Body); err != nil {
		t.Fatal(err)
	}
	return body.String()
}

func (p place) database(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", p.path) // the driver that the program uses
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func (p place) client() *s3.Client {
	o := p.server.Options()
	return s3.New(s3.Options{
		Region: o.Region, BaseEndpoint: &o.Endpoint, UsePathStyle: true,
		Credentials:                aws.CredentialsProvider(credentials.NewStaticCredentialsProvider(o.AccessKeyID, o.SecretAccessKey, "")),
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
	})
}
