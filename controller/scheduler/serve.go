package scheduler

// HostVerdict says whether a host can serve a pool.
type HostVerdict struct {
	HostID, Name string
	Serves       bool   // it does when it has a free slot
	Why          string // what keeps it from it, in a word or two; empty when it serves
}

// Serving says of every host, by name, whether it can serve a pool now, whether it is full or not. Nil when there is no such pool.
func Serving(s Snapshot, poolID string) []HostVerdict {
	d := decide(&s)
	for _, p := range d.pools {
		if p.ID != poolID {
			continue
		}
		shape := (shapes{}).of(d, p)
		out := make([]HostVerdict, 0, len(d.rooms.byName))
		for _, h := range d.rooms.byName {
			why := shape.cause(d, h)
			out = append(out, HostVerdict{HostID: h.ID, Name: h.Name, Serves: why == "", Why: why})
		}
		return out
	}
	return nil
}
