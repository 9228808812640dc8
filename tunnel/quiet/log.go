package quiet

import (
	"context"
	"fmt"
	"log/slog"

	"tailscale.com/types/logger"
)

// Logf writes what the library says at debug level: it is written for its own authors, and
// there is much of it.
func Logf(log *slog.Logger) logger.Logf {
	return func(format string, args ...any) {
		if log.Enabled(context.Background(), slog.LevelDebug) {
			log.Debug(fmt.Sprintf(format, args...))
		}
	}
}
