package main

import (
	"errors"
	"fmt"

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
			release, err := store.LockFile(cfg.DatabaseFile())
			if err != nil {
				return fmt.Errorf("cannot rotate the keys while a controller uses them; stop it first: %w", err)
			}
			n, err := rotate(cmd, cfg.DatabaseFile(), cfg.KeyFile())
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

// rotate adds a key unless an earlier rotation was interrupted, in which case that one is finished.
func rotate(cmd *cobra.Command, database, keyFile string) (int, error) {
	keys, err := secrets.LoadOrCreate(keyFile)
	if err != nil {
		return 0, err
	}
	if len(keys.KeyIDs()) == 1 {
		if keys, err = secrets.Rotate(keyFile); err != nil {
			return 0, err
		}
	}
	st, err := store.Open(cmd.Context(), store.Options{Path: database, Keys: keys})
	if err != nil {
		return 0, err
	}
	n, err := st.Rekey(cmd.Context())
	if err = errors.Join(err, st.Close()); err != nil {
		return n, fmt.Errorf("the rotation was interrupted after %d secrets; run it again to finish: %w", n, err)
	}
	_, err = secrets.Retire(keyFile)
	return n, err
}
