package trace

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// file is the part of os.File that writing needs.
type file interface {
	io.Writer
	io.Seeker
	io.Closer
	Truncate(size int64) error
}

func create(path string) (file, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err // not a nil *os.File in a non-nil interface
	}
	return f, nil
}

// files are the file that is written, and those before it.
type files struct {
	path   string
	keep   int
	create func(path string) (file, error)
	f      file  // nil if it could not be opened
	size   int64 // written, and whole lines
}

// append writes whole lines, or nothing.
func (x *files) append(lines []byte) error {
	n, err := x.f.Write(lines)
	if err != nil {
		return errors.Join(err, x.takeBack(n))
	}
	x.size += int64(n)
	return nil
}

// takeBack removes what was written in part. Should that fail, the file ends in a
// torn line, which a reader knows, and another is begun.
func (x *files) takeBack(n int) error {
	if n == 0 {
		return nil
	}
	_, err := x.f.Seek(x.size, io.SeekStart)
	if err == nil {
		err = x.f.Truncate(x.size)
	}
	if err != nil {
		x.close()
	}
	return err
}

// rotate begins another file, and keeps the ones before it. An empty one is used
// again.
func (x *files) rotate() error {
	x.close()
	if info, err := os.Stat(x.path); err == nil && info.Size() > 0 {
		for i := x.keep; i > 0; i-- {
			err := os.Rename(x.older(i-1), x.older(i))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	f, err := x.create(x.path)
	if err != nil {
		return err
	}
	x.f, x.size = f, 0
	return nil
}

func (x *files) close() {
	if x.f != nil {
		_ = x.f.Close() // what it wrote is in the hands of the system
		x.f, x.size = nil, 0
	}
}

// older is the name of the i-th file before the one written.
func (x *files) older(i int) string {
	if i == 0 {
		return x.path
	}
	return fmt.Sprintf("%s.%d", x.path, i)
}
