//! The ways into a running receiver: its own link, and the phones that join and leave.

use anabranch_mpegts_io::InputName;
use anabranch_observe::control::{LinkAddition, Links, Refused};
use anabranch_secure::PublicKey;
use anabranch_terminal::print;
use anyhow::ensure;

use super::listen::OtherSource;
use super::native::Native;
use super::phones::{self, KeptPhones, Phone, PhoneAddress, PlacedPhone};
use super::{Arguments, ReceivedStreams};
use crate::link::Link;
use crate::pairing::phone_request::{PhoneRequest, ReceivedPhone};
use crate::pairing::{PairArguments, host_for_senders, print_link, qr_code};
use crate::usage::usual_folder;

/// Addresses by which others join, and the phones that have one.
pub(super) struct Joining {
    /// Host by which phones reach this machine.
    host: String,
    /// Address and key of our own protocol, if it is spoken.
    own: Option<(String, PublicKey)>,
    phones: Vec<PlacedPhone>,
    /// File of the phones that join while the program runs.
    kept: Option<KeptPhones>,
    /// Phones that the file had when it was read last.
    in_file: Vec<PlacedPhone>,
}

/// Phones of the command line and of the file beside the list of senders.
#[derive(Default)]
pub(super) struct AllPhones {
    pub(super) placed: Vec<PlacedPhone>,
    /// Phones of the file that have no output here.
    pub(super) left_out: Vec<PlacedPhone>,
}

impl Arguments {
    /// Returns the file of phones that join while the program runs.
    fn kept_phones(&self) -> Option<KeptPhones> {
        self.list().map(|list| KeptPhones::beside(&list))
    }

    /// Returns all phones with their ports.
    ///
    /// # Errors
    /// The file of phones cannot be read, or there are too many of them.
    pub(super) fn all_phones(&self) -> anyhow::Result<AllPhones> {
        let kept = read(self.kept_phones().as_ref())?;
        let others = self.listen.iter().filter_map(|listen| listen.name());
        let named: Vec<_> = { self.phone.iter().map(|phone| &phone.name) }
            .chain(others)
            .collect();
        let (kept, left_out): (Vec<_>, Vec<_>) = { kept.into_iter() }
            .filter(|placed| !named.contains(&&placed.phone.name))
            .partition(|placed| self.has_own_output(&placed.phone));
        Ok(AllPhones {
            placed: phones::placed(&self.phone, kept)?,
            left_out,
        })
    }

    /// Returns whether a stream beside others has an output of its own.
    fn has_own_output(&self, phone: &Phone) -> bool {
        super::Destinations::new(self.outputs.clone(), true)
            .is_ok_and(|all| !all.are_shared() && all.of(&phone.name).is_ok())
    }

    /// Gives listeners of SRT and SRTLA for phones a stream ID and a passphrase: all of them with
    /// --pair, and those of phones.
    ///
    /// # Errors
    /// A file cannot be made, or a parameter of an address is wrong.
    pub(super) fn make_secrets(&self, sources: &mut [OtherSource]) -> anyhow::Result<()> {
        let phones = self.all_phones()?.placed;
        for source in sources {
            let is_phone = phones.iter().any(|placed| placed.phone.name == source.name);
            if is_phone || self.pairing.is_asked() {
                add_secrets(source)?;
            }
        }
        Ok(())
    }

    /// Returns the ways into a receiver that has this host for others.
    ///
    /// # Errors
    /// As of [`all_phones`](Self::all_phones).
    pub(super) fn joining(&self, native: Option<&Native>, host: &str) -> anyhow::Result<Joining> {
        let AllPhones { placed, left_out } = self.all_phones()?;
        for PlacedPhone { phone, .. } in left_out {
            let name = phone.name.as_str();
            print::warn(format_args!(
                "{name}: this phone has no output of its own, and is not received: name one, as \
                 {name}=FILE or with {{name}} in the file's name. `anabranch pair --remove {name}` \
                 forgets it"
            ));
        }
        Ok(Joining {
            host: host_for_senders(self.pairing.host()),
            own: native.map(|native| {
                let outside = native.outside(host, self.via_relay.as_ref());
                (outside, native.key)
            }),
            in_file: read(self.kept_phones().as_ref())?,
            phones: placed,
            kept: self.kept_phones(),
        })
    }
}

/// Reads the file of phones, if there is a place for one.
fn read(kept: Option<&KeptPhones>) -> anyhow::Result<Vec<PlacedPhone>> {
    kept.map_or_else(|| Ok(Vec::new()), KeptPhones::read)
}

/// Gives a listener for one phone a stream ID and a passphrase.
fn add_secrets(source: &mut OtherSource) -> anyhow::Result<()> {
    if let InputName::Foreign(foreign) = &mut source.input {
        let folder = usual_folder();
        *foreign = phones::for_one_phone(foreign.clone(), &source.name, folder.as_deref())?;
    }
    Ok(())
}

fn wrong<E: ToString>(error: E) -> Refused {
    Refused::Wrong(error.to_string())
}

impl ReceivedStreams<'_> {
    /// Prints the links of this receiver and of its phones, if they are asked for.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(super) fn print_links(&mut self, pairing: &PairArguments) -> anyhow::Result<()> {
        if !pairing.is_asked() {
            return Ok(());
        }
        if let (Some(receiver), Some((to, key))) = (self.receiver, &self.joining.own) {
            let code = self.desk.invite(receiver, pairing.name.clone());
            print::note(
                "the link is good once and for ten minutes: anabranch send INPUT 'LINK'. If \
                 senders reach this machine at another address, name it: --pair=HOST",
            );
            print_link(&Link {
                to: to.clone(),
                key: *key,
                code: Some(code),
            })?;
        }
        let addresses = self.addresses()?;
        if addresses.is_empty() {
            print::note(if self.destinations.are_shared() {
                "a phone with Moblin, Larix or IRL Pro joins by --phone NAME=APP, and an output \
                 with {name} in its name"
            } else {
                "a phone joins while this runs: `anabranch pair --phone NAME=APP`; APP is moblin, \
                 larix or irlpro"
            });
        }
        addresses.iter().try_for_each(PhoneAddress::print)
    }

    /// Returns the addresses that apps of phones call.
    ///
    /// # Errors
    /// A passphrase cannot be read.
    fn addresses(&self) -> anyhow::Result<Vec<PhoneAddress>> {
        let phones: Vec<Phone> = { self.joining.phones.iter() }
            .map(|placed| placed.phone.clone())
            .collect();
        let sources = self.others.iter().map(|other| &other.source);
        let addresses = sources.map(|source| PhoneAddress::of(source, &self.joining.host, &phones));
        addresses.filter_map(Result::transpose).collect()
    }

    /// Returns the links that are good now.
    ///
    /// # Errors
    /// A passphrase cannot be read.
    pub(super) fn links(&self) -> Result<Links, Refused> {
        let mut links = Vec::new();
        if let Some((to, key)) = &self.joining.own {
            links.extend(self.desk.own_codes().map(|code| {
                let link = Link {
                    to: to.clone(),
                    key: *key,
                    code: Some(code.clone()),
                };
                qr_code::join_link(None, "Anabranch".to_owned(), link.to_text(), None)
            }));
        }
        let addresses = self.addresses();
        for address in addresses.map_err(|error| Refused::NotNow(format!("{error:#}")))? {
            links.extend(address.join_links());
        }
        Ok(Links { links })
    }

    /// Makes a link for another sender or phone.
    ///
    /// # Errors
    /// The name is taken, or there is no way in for it.
    pub(super) fn add_link(&mut self, addition: &LinkAddition) -> Result<String, Refused> {
        let name = addition.name.as_deref();
        if let Some(app) = &addition.phone {
            let stream = name.ok_or_else(|| wrong("a phone needs a name: that of its stream"))?;
            let phone = format!("{stream}={app}").parse();
            let placed = self.add_phone(phone.map_err(Refused::Wrong)?);
            return match placed {
                Ok(placed) => Ok(phones::described(&placed)),
                Err(error) => Err(Refused::NotNow(format!("{error:#}"))),
            };
        }
        let (Some(receiver), Some(_)) = (self.receiver, &self.joining.own) else {
            let text = "this receiver has no address of our own protocol: start it with --pair";
            return Err(Refused::NotNow(text.to_owned()));
        };
        let sender = { name.map(str::parse).transpose() }.map_err(wrong::<String>)?;
        if let Some(name) = name {
            self.check_name(name).map_err(wrong)?;
        }
        self.desk.invite(receiver, sender);
        Ok("another sender may join by a link, once and for ten minutes".to_owned())
    }

    fn check_name(&self, name: &str) -> anyhow::Result<()> {
        let senders = self.allowed.all().iter().map(|allowed| &allowed.name);
        let others = self.others.iter().map(|other| &other.source.name);
        let is_free = senders.chain(others).all(|taken| taken.as_str() != name);
        ensure!(
            is_free,
            "a stream is called {name} already (`anabranch pair --remove {name}` removes one that \
             was paired)"
        );
        Ok(())
    }

    /// Receives another phone, and keeps it for the next start.
    ///
    /// # Errors
    /// Its name or all ports are taken, it has no output, or its port cannot be opened.
    fn add_phone(&mut self, phone: Phone) -> anyhow::Result<PlacedPhone> {
        let name = phone.name.as_str().to_owned();
        self.check_name(&name)?;
        ensure!(
            !self.destinations.are_shared(),
            "all senders share one output, so {name} has none: start the receiver with {{name}} \
             in the output's name"
        );
        let placed = PlacedPhone::beside(phone, &self.joining.phones)?;
        let mut source = placed.source()?;
        add_secrets(&mut source)?;
        self.open_other(&source)?;
        source.announce();
        print::note(phones::described(&placed));
        if let Some(kept) = &self.joining.kept
            && let Err(error) = kept.add(placed.clone())
        {
            print::warn(format_args!(
                "{name} is received until this program ends: {error:#}"
            ));
        }
        self.joining.phones.push(placed.clone());
        Ok(placed)
    }

    /// Takes phones in for which `anabranch pair` asks, and ends those that it has removed.
    pub(super) fn look_for_phones(&mut self) {
        for file in self.desk.phone_requests() {
            let phone = match PhoneRequest::read(&file) {
                Ok(PhoneRequest::Asked(phone)) => phone,
                // It is answered, or not whole yet.
                Ok(_) | Err(_) => continue,
            };
            let answer = match self.add_phone(phone) {
                Ok(placed) => PhoneRequest::Received(ReceivedPhone {
                    host: self.joining.host.clone(),
                    port: placed.port,
                    passphrase_file: usual_folder()
                        .map(|folder| phones::passphrase_path(&placed.phone.name, &folder))
                        .map(|path| path.display().to_string()),
                }),
                Err(error) => PhoneRequest::Refused(format!("{error:#}")),
            };
            if let Err(error) = answer.answer(&file) {
                print::warn(format_args!("cannot answer `anabranch pair`: {error:#}"));
            }
        }
        if let Err(error) = self.forget_phones() {
            print::warn(format_args!("{error:#}"));
        }
    }

    /// Ends the streams of phones that are no longer in the file.
    ///
    /// # Errors
    /// The file cannot be read.
    fn forget_phones(&mut self) -> anyhow::Result<()> {
        let now = read(self.joining.kept.as_ref())?;
        let before = core::mem::replace(&mut self.joining.in_file, now);
        for gone in before {
            if self.joining.in_file.contains(&gone) || !self.joining.phones.contains(&gone) {
                continue;
            }
            self.joining.phones.retain(|placed| *placed != gone);
            let name = &gone.phone.name;
            let its = { &mut self.others }.extract_if(.., |other| other.source.name == *name);
            for other in its {
                other.stop.stop();
            }
            print::note(format_args!("{} is no longer received", name.as_str()));
        }
        Ok(())
    }

    /// Takes over the phones of other arguments.
    ///
    /// # Errors
    /// The file of phones cannot be read.
    pub(super) fn use_phones(&mut self, arguments: &Arguments) -> anyhow::Result<()> {
        self.joining.phones = arguments.all_phones()?.placed;
        Ok(())
    }
}
