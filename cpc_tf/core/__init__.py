"""What every part uses: settings, commands, files, messages, devices."""
