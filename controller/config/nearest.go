package config

import "strings"

// nearest returns the setting or group that key most likely means, or nothing. The same last
// word under another group is taken first: poll_interval means github.poll_interval.
func nearest(key string) string {
	key = strings.ToLower(key)
	last := key[strings.LastIndexByte(key, '.')+1:]
	best, bestDistance := "", 1+max(2, len(key)/4)
	consider := func(candidate string) {
		if d := Distance(key, candidate); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	for _, s := range registry {
		if strings.HasSuffix(s.Key, "."+last) {
			return s.Key
		}
		consider(s.Key)
		if group, _, ok := strings.Cut(s.Key, "."); ok {
			consider(group)
		}
	}
	return best
}

// nearestVariable is nearest for the environment's names.
func nearestVariable(name string) string {
	best, bestDistance := "", 1+max(2, len(name)/4)
	for _, s := range registry {
		if d := Distance(name, s.Env()); d < bestDistance {
			best, bestDistance = s.Env(), d
		}
	}
	return best
}

func didYouMean(hint string) string {
	if hint == "" {
		return ""
	}
	return "; did you mean " + hint + "?"
}

// Distance is the number of letters to insert, delete or change to make b of a.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
