package machines

import (
	"flag"
	"log/slog"
	"os"

	_ "pgregory.net/rapid" // whose flag it sets
)

// long sets how many runs the property has: ZOOMIES_RUNS, or a few hundred.
func long() {
	n := os.Getenv("ZOOMIES_RUNS")
	if n == "" {
		n = "200"
	}
	flag.Parse()
	if err := flag.Set("rapid.checks", n); err != nil {
		panic(err)
	}
}

var quiet = slog.New(slog.DiscardHandler)
