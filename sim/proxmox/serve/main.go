// Command serve runs a simulated Proxmox VE cluster of three nodes until it is interrupted, to look at by hand with curl. It
// prints how to reach it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/zoomies-fleet/zoomies/sim/proxmox"
)

func main() {
	if err := run(); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

func run() error {
	listen := flag.String("listen", "127.0.0.1:8006", "address")
	version := flag.String("version", "9.2", "release: 8.3, 8.4, 9.1 or 9.2")
	scale := flag.Float64("scale", 1, "how long things take, as a part of what the real one takes")
	foreign := flag.Int("foreign", 5, "how many machines of others there are")
	dir := flag.String("dir", "", "folder for the contents of volumes (default: memory)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", *listen)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w", *listen, err)
	}
	s, err := proxmox.New(proxmox.Options{
		Version: *version, Cluster: proxmox.ThreeNodes(), Listener: ln, Scale: *scale, Dir: *dir,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		return fmt.Errorf("cannot start: %w", err)
	}
	c := s.Console()
	for i := range *foreign {
		node := fmt.Sprintf("pve%d", i%3+1)
		if err := c.Create(node, 101+i, map[string]string{"name": fmt.Sprintf("office-%d", i+1), "scsi0": "local-lvm:8", "net0": "virtio,bridge=vmbr0"}); err != nil {
			return fmt.Errorf("cannot make the machines of others: %w", err)
		}
	}
	rootToken := c.AddToken("root@pam", "sim", false)
	scoped := c.Scoped("zoomies", "zoomies@pve", "fleet", "vmbr0", "local", "local-lvm", "shared")
	fmt.Printf(`%s
fingerprint %s

curl -sk -H 'Authorization: PVEAPIToken=%s' %s/api2/json/cluster/resources

A token that may do everything:        PVEAPIToken=%s
One that is scoped to pool "zoomies":  PVEAPIToken=%s
`, s.URL(), s.Fingerprint(), rootToken, s.URL(), rootToken, scoped)
	<-ctx.Done()
	if err := s.Close(); err != nil {
		return fmt.Errorf("cannot stop: %w", err)
	}
	return nil
}
