package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
	"github.com/zoomies-fleet/zoomies/controller/scheduler"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// Prewarm has every host that can serve a pool fetch its images now. It returns the images, and of every host whether it was asked and
// why not. A host that was asked for an image and has not answered is not asked again.
func (c *Controller) Prewarm(ctx context.Context, p store.Pool) (images []string, hosts []scheduler.HostVerdict, err error) {
	image, why := runnerImage(p)
	if image == "" {
		return nil, nil, fmt.Errorf("cannot prewarm pool %s: %w", p.Name, errors.Join(errors.New("it has no image"), why))
	}
	images = append(images, image)
	if d := daemonImage(p); p.Daemon != "" && d != "" {
		images = append(images, d)
	}
	c.warmMu.Lock()
	defer c.warmMu.Unlock()
	snap, err := c.snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}
	hosts = scheduler.Serving(snap, p.ID)
	for _, h := range hosts {
		if !h.Serves {
			continue
		}
		for _, image := range images {
			if err := c.prewarmHost(ctx, h.HostID, protocol.Prewarm{Backend: p.Backend, Image: image, PullPolicy: p.PullPolicy}); err != nil {
				return nil, nil, fmt.Errorf("cannot ask host %s for %s: %w", h.Name, image, err)
			}
		}
	}
	return images, hosts, nil
}

func (c *Controller) prewarmHost(ctx context.Context, hostID string, want protocol.Prewarm) error {
	asked, err := c.store.OutstandingTasks(ctx, hostID, string(protocol.TaskPrewarm))
	if err != nil {
		return err
	}
	for _, t := range asked {
		var same protocol.Task
		if json.Unmarshal(t.Payload, &same) == nil && same.Prewarm != nil && *same.Prewarm == want {
			return nil
		}
	}
	_, _, err = c.queue.Enqueue(ctx, hostID, protocol.Task{Kind: protocol.TaskPrewarm, Prewarm: &want})
	return err
}
