package processor

import "slices"

// line is the queue for a slot: fair between users (round robin), and in order of arrival for each
// user. The zero value is an empty queue.
type line struct {
	users []*userLine // users with waiters; the first is next
	of    map[string]*userLine
}

type userLine struct {
	user  string
	turns []*Turn // never empty
}

func (l *line) add(t *Turn) {
	u := l.of[t.user]
	if u == nil {
		if l.of == nil {
			l.of = map[string]*userLine{}
		}
		u = &userLine{user: t.user}
		l.of[t.user] = u
		l.users = append(l.users, u)
	}
	u.turns = append(u.turns, t)
}

// next removes the next waiter; nil if the queue is empty.
func (l *line) next() *Turn {
	if len(l.users) == 0 {
		return nil
	}
	u := l.users[0]
	t := u.turns[0]
	u.turns[0] = nil
	u.turns = u.turns[1:]
	if len(u.turns) == 0 {
		delete(l.of, u.user)
		l.users = slices.Delete(l.users, 0, 1)
		return t
	}
	copy(l.users, l.users[1:])
	l.users[len(l.users)-1] = u
	return t
}
