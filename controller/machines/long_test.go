package machines

import (
	"flag"
	"log/slog"
	"os"
	"strconv"

	_ "pgregory.net/rapid" // whose flag it sets
)

// shards of the property run side by side.
const shards = 2

// long sets how many runs the property has: ZOOMIES_RUNS, or a few hundred.
func long() {
	n, err := strconv.Atoi(os.Getenv("ZOOMIES_RUNS"))
	if err != nil {
		n = 300
	}
	flag.Parse()
	if err := flag.Set("rapid.checks", strconv.Itoa(n/shards)); err != nil {
		panic(err)
	}
}

var quiet = slog.New(slog.DiscardHandler)
