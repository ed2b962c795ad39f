package peer

import "container/list"

// lru is a table of at most size entries; the one unused for longest goes
// first. It is not safe for concurrent use.
type lru[K comparable, V any] struct {
	size  int
	order *list.List // of entry[K, V], the last used in front
	byKey map[K]*list.Element
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

func newLRU[K comparable, V any](size int) *lru[K, V] {
	return &lru[K, V]{size: size, order: list.New(), byKey: make(map[K]*list.Element)}
}

// get finds an entry and marks it as used.
func (l *lru[K, V]) get(key K) (V, bool) {
	e, ok := l.byKey[key]
	if !ok {
		var none V
		return none, false
	}
	l.order.MoveToFront(e)
	return e.Value.(entry[K, V]).value, true
}

// put adds or replaces an entry. It returns the one that had to go for it.
func (l *lru[K, V]) put(key K, value V) (evicted V, ok bool) {
	if e, had := l.byKey[key]; had {
		e.Value = entry[K, V]{key, value}
		l.order.MoveToFront(e)
		return evicted, false
	}
	l.byKey[key] = l.order.PushFront(entry[K, V]{key, value})
	if l.order.Len() <= l.size {
		return evicted, false
	}
	last := l.order.Back().Value.(entry[K, V])
	l.remove(last.key)
	return last.value, true
}

func (l *lru[K, V]) remove(key K) {
	if e, ok := l.byKey[key]; ok {
		l.order.Remove(e)
		delete(l.byKey, key)
	}
}

// take removes and returns the entries that match, the last used first.
func (l *lru[K, V]) take(match func(K) bool) []V {
	var taken []V
	for e := l.order.Front(); e != nil; {
		next := e.Next()
		if p := e.Value.(entry[K, V]); match(p.key) {
			l.remove(p.key)
			taken = append(taken, p.value)
		}
		e = next
	}
	return taken
}

func (l *lru[K, V]) len() int { return l.order.Len() }
