package controller

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/problems"
	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/images/catalogue"
)

// catalogued is the list of runner images of this build. It is part of the binary, so a list that cannot be read is a fault of the build.
var catalogued = sync.OnceValue(func() catalogue.Catalogue {
	c, err := catalogue.Load()
	if err != nil {
		panic(err)
	}
	return c
})

// runnerImage is the image that a pool's runners start from: the pool's own, which may be a system of the catalogue ("debian-12")
// instead of a reference, or the catalogue's first. A pool with a daemon gets the variant that has the daemon's client, where
// the catalogue knows that there is one; any other image is left alone, since a variant that does not exist would stop every
// job of the pool, those that never build an image too.
func runnerImage(p store.Pool) (ref string, err error) {
	c := catalogued()
	client := catalogue.Client(p.Daemon)
	if p.Image == "" || !strings.ContainsAny(p.Image, "/:@") {
		if ref, err = c.Resolve(p.Image, client); err != nil {
			return p.Image, fmt.Errorf("cannot find pool %s's image: %w", p.Name, err)
		}
		return ref, nil
	}
	if client == catalogue.NoClient {
		return p.Image, nil
	}
	if ref, err = c.WithClient(p.Image, client); err != nil {
		return p.Image, err
	}
	return ref, nil
}

// daemonImage is the image of a pool's sidecar: the pool's own, or for Podman the catalogue's.
func daemonImage(p store.Pool) string {
	if p.DaemonImage == "" && p.Daemon == string(catalogue.Podman) {
		return catalogued().Daemon.Reference
	}
	return p.DaemonImage
}

// checkImages judges the images of every pool.
func (c *Controller) checkImages(ctx context.Context) error {
	pools, err := c.store.Pools(ctx)
	if err != nil {
		return err
	}
	c.judgeImages(pools, c.now())
	return nil
}

// judgeImages names pools whose image lacks the client of their daemon, and pools whose runner GitHub will soon refuse.
func (c *Controller) judgeImages(pools []store.Pool, now time.Time) {
	age, verdict := catalogued().Runner.Age(now)
	ours := map[string]bool{}
	for _, i := range catalogued().Images() {
		ours[i.Reference], ours[i.Pinned] = true, true
	}
	for _, p := range pools {
		ref, err := runnerImage(p)
		if err == nil {
			c.problems.Clear(problems.ClientMissing, p.ID)
		} else {
			c.problems.Raise(p.ID, problems.Problem{
				Code:  problems.ClientMissing,
				Title: fmt.Sprintf("The image of pool %s may have no %s client", p.Name, p.Daemon),
				Why:   fmt.Sprintf("Its jobs are offered a %s daemon, and: %v.", p.Daemon, err),
				Fix:   "Set the pool's image to one that has the client, or to a system of the catalogue, such as debian-13.",
			})
		}
		if verdict == catalogue.Current || !ours[ref] {
			c.problems.Clear(problems.RunnerAging, p.ID)
			continue
		}
		c.problems.Raise(p.ID, problems.Problem{
			Code:  problems.RunnerAging,
			Title: fmt.Sprintf("The runner in pool %s's image is %d days old", p.Name, age),
			Why:   fmt.Sprintf("GitHub gives no jobs to a runner that is 30 days behind a newer release; this build's is %s.", catalogued().Runner.Version),
			Fix:   "Update Zoomies, and rebuild the runner images.",
		})
	}
}
