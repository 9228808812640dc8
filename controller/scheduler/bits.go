package scheduler

import "math/bits"

// labelSet is a set of label numbers.
type labelSet []uint64

// labelIndex numbers the labels that pools list.
type labelIndex map[string]int

func (x labelIndex) add(labels []string) {
	for _, l := range labels {
		if _, ok := x[l]; !ok {
			x[l] = len(x)
		}
	}
}

// set is labels as numbers, and how many of them no pool lists.
func (x labelIndex) set(labels []string) (labelSet, int) {
	s, unknown := make(labelSet, (len(x)+63)/64), 0
	for _, l := range labels {
		n, ok := x[l]
		if !ok {
			unknown++
			continue
		}
		s[n/64] |= 1 << (n % 64)
	}
	return s, unknown
}

// minus counts the labels of s that other does not have.
func (s labelSet) minus(other labelSet) int {
	n := 0
	for i, w := range s {
		n += bits.OnesCount64(w &^ other[i])
	}
	return n
}
