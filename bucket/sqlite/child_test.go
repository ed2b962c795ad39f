package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/tenure-go/tenure/bucket"
	"github.com/tenure-go/tenure/bucket/sqlite"
)

// The test program is also its own child processes: with this variable set it
// runs the named job on the file given as its argument.
const jobVariable = "TENURE_SQLITE_TEST_JOB"

var jobs = map[string]func(context.Context, bucket.Bucket) error{
	"count": count,
	"write": write,
}

func TestMain(m *testing.M) {
	job, child := jobs[os.Getenv(jobVariable)]
	if !child {
		os.Exit(m.Run())
	}
	if err := runJob(job, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runJob(job func(context.Context, bucket.Bucket) error, path string) error {
	b, err := sqlite.Open(path)
	if err != nil {
		return err
	}
	defer b.Close()
	return job(context.Background(), b)
}

// child starts a job in a process that dies with the test.
func child(t *testing.T, job, path string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	c := exec.Command(os.Args[0], path)
	c.Env = append(os.Environ(), jobVariable+"="+job)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
	})
	return c, bufio.NewScanner(out)
}

const increments = 100

// count adds one to a counter, again and again.
func count(ctx context.Context, b bucket.Bucket) error {
	for done := 0; done < increments; {
		o, err := b.Get(ctx, "counter")
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(o.Body))
		if err != nil {
			return err
		}
		_, err = b.Replace(ctx, "counter", []byte(strconv.Itoa(n+1)), o.Version)
		if err == nil {
			done++
		} else if !errors.Is(err, bucket.ErrConflict) {
			return err
		}
	}
	return nil
}

// write claims cells for ever, as a node under load does, and prints each claim
// once it was acknowledged.
func write(ctx context.Context, b bucket.Bucket) error {
	for i := 0; ; i++ {
		key := fmt.Sprintf("cells/%d-%d/own.json", os.Getpid(), i)
		w, err := b.Create(ctx, key, []byte(`{"node":"a","epoch":1}`))
		if err != nil {
			return err
		}
		w, err = b.Replace(ctx, key, []byte(`{"node":"","epoch":1}`), w.Version)
		if err != nil {
			return err
		}
		fmt.Println(key, w.Version)
	}
}
