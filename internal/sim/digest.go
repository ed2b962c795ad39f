package sim

// digest is a hash of what is put into it, the same in every process.
type digest struct{ sum uint64 }

func (d *digest) number(x uint64) { d.sum = mix(d.sum, x) }

func (d *digest) text(s string) {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	d.number(h)
}

func (d *digest) flag(b bool) {
	if b {
		d.number(1)
	} else {
		d.number(2)
	}
}

// mix is a number that has little to do with either.
func mix(a, b uint64) uint64 {
	x := a*0x9e3779b97f4a7c15 + b + 0x7f4a7c15
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
