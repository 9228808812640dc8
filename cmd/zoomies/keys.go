package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

func keysCommand() *cobra.Command {
	c := &cobra.Command{Use: "keys", Short: "The keys that seal secrets in the database"}
	c.AddCommand(keysRotateCommand())
	return c
}

func keysRotateCommand() *cobra.Command {
	var configFile string
	c := &cobra.Command{
		Use:   "rotate",
		Short: "Seal every secret with a new key, and forget the old one",
		Long: "Adds a new key to the key file, seals every secret in the database with it, and then removes the old keys.\n" +
			"The controller must be stopped. When it is interrupted, nothing is lost: run it again and it goes on.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(configFile, nil)
			if err != nil {
				return err
			}
			if _, err := os.Stat(cfg.DatabaseFile()); err != nil {
				return fmt.Errorf("cannot rotate the keys: there is no database to seal anew; is data_dir right?: %w", err)
			}
			release, err := store.LockFile(cfg.DatabaseFile())
			if err != nil {
				return fmt.Errorf("cannot rotate the keys while a controller uses them; stop it first: %w", err)
			}
			n, err := rotate(cmd.Context(), cfg.DatabaseFile(), cfg.KeyFile())
			if err = errors.Join(err, release()); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "sealed %d secrets with a new key; the old keys are gone from %s\n", n, cfg.KeyFile())
			return nil
		},
	}
	c.Flags().StringVar(&configFile, "config", "", "path of zoomies.yaml")
	return c
}

// rotationLease keeps controllers of other machines out while the keys are rotated. A rotation takes seconds; the lease of one
// that was killed is taken over at once on this machine.
const rotationLease = 5 * time.Minute

// rotate adds a key unless an earlier rotation was interrupted, in which case that one is finished. It touches nothing while
// the controller of another machine holds the database.
func rotate(ctx context.Context, database, keyFile string) (int, error) {
	holder, err := store.ThisProcess(database)
	if err != nil {
		return 0, err
	}
	keys, err := store.OpenKeys(ctx, database, keyFile, holder, false)
	switch {
	case errors.Is(err, store.ErrLeaseHeld):
		return 0, fmt.Errorf("cannot rotate the keys while a controller uses them: %w", err)
	case err != nil:
		return 0, fmt.Errorf("cannot rotate the keys: %w", err)
	}
	if len(keys.KeyIDs()) == 1 {
		if keys, err = secrets.Rotate(keyFile); err != nil {
			return 0, err
		}
	}
	st, err := store.Open(ctx, store.Options{Path: database, Keys: keys, Holder: holder})
	if err != nil {
		return 0, err
	}
	if err := st.AcquireLease(ctx, holder, rotationLease, false); err != nil {
		return 0, errors.Join(fmt.Errorf("cannot rotate the keys while a controller uses them: %w", err), st.Close())
	}
	n, err := st.Rekey(ctx)
	if err = errors.Join(err, st.ReleaseLease(context.WithoutCancel(ctx), holder.ID), st.Close()); err != nil {
		return n, fmt.Errorf("the rotation was interrupted after %d secrets; run it again to finish: %w", n, err)
	}
	_, err = secrets.Retire(keyFile)
	return n, err
}
